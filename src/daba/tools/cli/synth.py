"""`daba synth`: a scene with known truth, and a start to solve it from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from daba.core.types import frozen
from daba.tools.cli.arguments import Arg, Quiet, flags_of, parse
from daba.tools.cli.outputs import check_distinct, check_problem_target
from daba.tools.synthetic.options import SceneOptions

GROUPS = {
    "scene": ("scene", "cameras", "points", "observations", "seed"),
    "images": ("noise", "outliers", "distortion"),
    "start": ("rotation_error", "center_error", "point_error", "focal_error", "drift"),
}


@frozen
class SynthCommand:
    """Make a synthetic scene with known truth, and write the perturbed start to solve it from.

    examples:
      daba synth city.txt --cameras 100 --points 10000
      daba synth street.npz --scene street --cameras 500 --points 50000 --truth truth.npz
      daba synth orbit.txt.bz2 --scene orbit --observations 100000 --outliers 0.02 --seed 3
    """

    output: Annotated[Path, Arg("OUT", positional=True)]
    """What to write: BAL (.txt, .bal), Bundler (.out), .npz, .ply, or a store (.daba)."""
    truth: Annotated[Path | None, Arg("FILE")] = None
    """Where to write the true cameras and points, too."""
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, values = parse(SynthCommand, argv, flags_of(SceneOptions), GROUPS)
    options = SceneOptions(**values).validated()
    from daba.io.formats import save
    from daba.tools.synthetic import generate

    outputs = [command.output] + ([command.truth] if command.truth else [])
    for path in outputs:
        check_problem_target(path)
    check_distinct(outputs)
    scene = generate(options)
    for path, problem in zip(outputs, (scene.start, scene.truth), strict=False):
        save(problem, path)
    if not command.quiet:
        p = scene.start
        print(
            f"{' and '.join(map(str, outputs))}: {options.scene}, {p.num_cameras:,} cameras, "
            f"{p.num_points:,} points, {p.num_observations:,} observations"
        )
    return 0
