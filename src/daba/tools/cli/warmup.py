"""`daba warmup`: compile what solves will need, before the first of them."""

from __future__ import annotations

import time

from daba.core.types import frozen
from daba.tools.cli.arguments import Quiet, parse


@frozen
class WarmupCommand:
    """Compile the kernels of the CPU, and where there is a GPU, of the GPU, too. They are kept:
    later solves, also by other processes, find them.

    examples:
      daba warmup
    """

    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(WarmupCommand, argv)
    from daba.runtime.backend import why_no_gpu
    from daba.runtime.compile import compile_gpu_kernels, compile_kernels
    from daba.tools.synthetic import generate
    from daba.tools.synthetic.options import SceneOptions

    began = time.perf_counter()
    compile_kernels()
    what, missing = "the CPU's kernels", why_no_gpu()
    if not missing:
        scene = SceneOptions(scene="orbit", cameras=16, points=1500, seed=1)
        compile_gpu_kernels(generate(scene).start)
        what = "the kernels of CPU and GPU"
    if not command.quiet:
        print(f"{what} are compiled ({time.perf_counter() - began:.0f} s)")
        if missing:
            print(f"no GPU can be used: {missing}")
    return 0
