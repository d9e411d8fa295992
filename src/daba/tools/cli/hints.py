"""What somebody meant who wrote what daba does not know: words of other tools, and slips."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import get_close_matches

COMMANDS = {
    "bundle_adjuster": "solve", "bundle_adjustment": "solve", "ba": "solve", "adjust": "solve",
    "optimize": "solve",
    "model_analyzer": "info", "inspect": "info", "stats": "info",
    "model_converter": "convert", "export": "convert", "model_splitter": "partition",
    "gui": "view", "viewer": "view", "show": "view", "plot": "report", "benchmark": "bench",
    "generate": "synth", "fetch": "download",
}  # fmt: skip
"""What the command of another name, mostly COLMAP's, is called here."""

OPTIONS = {
    "input_path": "IN", "input": "IN", "output_path": "output", "out": "output",
    "max_num_iterations": "iterations", "num_iterations": "iterations",
    "max_iterations": "iterations",
    "num_threads": "threads", "loss_function": "loss", "loss_function_type": "loss",
    "robust_loss": "loss", "loss_function_scale": "loss_radius", "loss_scale": "loss_radius",
    "linear_solver_type": "linear_solver", "trust_region_radius": "lm_radius",
    "initial_trust_region_radius": "lm_radius", "max_solver_time_in_seconds": "max_seconds",
    "filter_max_reproj_error": "filter", "max_reproj_error": "filter", "gpu": "backend",
    "use_gpu": "backend", "gpu_index": "backend", "constant": "fix",
}  # fmt: skip
"""What an option of COLMAP or Ceres is called here, or IN where it is no option."""


def unknown_command(name: str, arguments: Sequence[str], known: Sequence[str]) -> str:
    """The message for a command that does not exist."""
    plain = name.lower().replace("-", "_")
    if plain in COMMANDS:
        meant = COMMANDS[plain]
        where = _value(arguments, "input_path"), _value(arguments, "output_path")
        command = ["daba", meant, where[0] or "IN"]
        if where[1]:
            command += [where[1]] if meant == "convert" else ["-o", where[1]]
        elif meant == "solve":
            command += ["-o", "OUT"]
        return f"there is no command '{name}'; here it is: {shlex.join(command)}"
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"the commands are {', '.join(known)}"
    return f"there is no command '{name}'; {hint}"


def unknown_argument(
    command: str, arguments: Sequence[str], unknown: str, known: Sequence[str]
) -> str:
    """The message for an argument that a command does not take."""
    if not unknown.startswith("-"):
        if "output" in known and "--output" not in arguments and "-o" not in arguments:
            return (
                f"'{unknown}' is one argument too many; to write the solution there: "
                f"{_with_output(command, arguments, unknown)}"
            )
        return f"'{unknown}' is one argument too many; see daba {command} --help"
    given, word = unknown.split("=")[0], _word(unknown)
    meant = OPTIONS.get(word, word)
    if meant == "IN":
        return f"there is no option {given}: the problem is given alone, as in daba {command} IN"
    if word in known:  # a switch that is on, and is only there to be turned off
        return f"daba {command} has no option {given}; to turn it off: --no-{_flag(word)[2:]}"
    near = [meant] if meant in known else get_close_matches(word, known, n=1)
    hint = f"did you mean {_flag(near[0])}?" if near else f"see daba {command} --help-all"
    return f"daba {command} has no option {given}; {hint}"


def _word(option: str) -> str:
    """--BundleAdjustment.max-iterations=9 without all but max_iterations."""
    return option.split("=")[0].lstrip("-").rpartition(".")[2].replace("-", "_")


def _with_output(command: str, arguments: Sequence[str], output: str) -> str:
    rest = list(arguments)
    rest.remove(output)
    return shlex.join(["daba", command, *rest, "-o", output])


def _value(arguments: Sequence[str], name: str) -> str | None:
    """The value of an option as COLMAP's users write it: --name VALUE or --name=VALUE."""
    for n, one in enumerate(arguments):
        if one == f"--{name}" and n + 1 < len(arguments):
            return arguments[n + 1]
        if one.startswith(f"--{name}="):
            return one.partition("=")[2]
    return None


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
