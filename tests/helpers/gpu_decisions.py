"""A kernel that calls the decisions. Run as a script, this compiles it, and prints the
floating-point constants of what comes out."""

from __future__ import annotations

import re
from typing import Any

import triton
import triton.language as tl
from triton import jit

from daba.backends.gpu.kernels import decisions
from daba.backends.gpu.kernels.exact import bits, double


@jit
def decide(table, LEAST: tl.constexpr, GROWTH: tl.constexpr, N: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    """Rows of ten numbers in, rows of twelve out."""
    at = table + tl.arange(0, N)
    trying = tl.load(at) > 0.0
    actual = tl.load(at + N)
    predicted = tl.load(at + 2 * N)
    start = tl.load(at + 3 * N)
    radius = tl.load(at + 4 * N)
    shrink = tl.load(at + 5 * N)
    limit = tl.load(at + 6 * N)
    F = tl.load(at + 7 * N)
    s = tl.load(at + 8 * N)
    eta = tl.load(at + 9 * N)
    good, gain = decisions.accept(trying, actual, predicted, double(LEAST))
    stalled = decisions.stalled(trying, good, predicted, start, double(LEAST))
    failed = trying & (good == 0) & (stalled == 0)
    out = at + 10 * N
    tl.store(out, good.to(tl.float64))
    tl.store(out + N, gain)
    tl.store(out + 2 * N, stalled.to(tl.float64))
    new, less = decisions.next_radius(good, failed, gain, radius, shrink, limit)
    tl.store(out + 3 * N, new)
    tl.store(out + 4 * N, less)
    new, limit = decisions.limit_by_objective(F, start, radius, limit)
    tl.store(out + 5 * N, new)
    tl.store(out + 6 * N, limit)
    gamma, after = decisions.nesterov(s)
    tl.store(out + 7 * N, gamma)
    tl.store(out + 8 * N, after)
    tl.store(out + 9 * N, decisions.restart_level(F, start, eta))
    tl.store(out + 10 * N, decisions.next_eta(eta, double(GROWTH)))
    tl.store(out + 11 * N, decisions.goes_back(actual, predicted, F, s).to(tl.float64))


def main() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fixed: dict[str, Any] = {"LEAST": bits(1e-3), "GROWTH": bits(1.0005), "N": 32}
    signature = {"table": "*fp64"} | dict.fromkeys(fixed, "constexpr")
    compiled = triton.compile(
        ASTSource(decide, signature, fixed), target=GPUTarget("cuda", 90, 32)
    )  # fmt: skip
    text = compiled.asm["ttir"]
    for value, kind in re.findall(r"arith.constant (?:dense<)?([-+.eE\d]+)>? : .*?(f\d\d)", text):
        print(value if kind == "f64" else f"{value} {kind}")


if __name__ == "__main__":
    main()
