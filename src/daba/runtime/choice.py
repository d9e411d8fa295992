"""Which method solves, where the options leave it to daba; and why, in words."""

from __future__ import annotations

from typing import Literal, NamedTuple

from daba.core.options import Options


class Choice(NamedTuple):
    """A method."""

    method: Literal["auto", "lm", "daba", "duba", "admm", "dr"]
    why: str
    """Empty where somebody has asked for it, or one device leaves no question."""

    def line(self, devices: int) -> str:
        """For people."""
        where = "one device" if devices == 1 else f"{devices:,} devices"
        return f"{self.method} on {where}" + (f", because {self.why}" if self.why else "")


def choose_method(options: Options, error: str, processes: int) -> Choice:
    """The method, for so many processes. It is lm wherever sums over all devices can be had: then
    it is at the optimum in fewer rounds of exchange than any other (docs/how-to/which-method.md).
    """
    if options.method == "lm":
        return Choice("lm", "")
    if options.devices == 1:
        alone = options.method == "auto"
        return Choice("lm", "" if alone else f"{options.method} needs several")
    if options.method != "auto":
        return Choice(options.method, "")
    if error == "pixel":
        return Choice("lm", "no other method minimises pixels")
    why = "it ends where one device would, and sums over all devices cost nothing in one process"
    if processes > 1:
        why = (
            "it ends where one device would, in the fewest rounds of exchange; where sums over all "
            f"{processes} processes are slow or cannot be had, use --method daba"
        )
    return Choice("lm", why)
