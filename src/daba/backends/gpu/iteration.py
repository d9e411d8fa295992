"""One iteration of Algorithm 1 as kernels, in order; nothing here waits for the GPU.

`begin`, `attempt`, `gradients`, `decide` and `finish` read like `Solver.iterate` and
`Levenberg.step`. What a device does not need, or must not do yet, its programs skip when they look
into the book.
"""

from __future__ import annotations

from collections.abc import Callable

from daba.backends.gpu.arrays import Estimate, Moments
from daba.backends.gpu.kernels import decide, state
from daba.backends.gpu.kernels.book import Row
from daba.backends.gpu.kernels.exact import bits
from daba.backends.gpu.launches import Launches, blocks_of
from daba.distributed.comm.base import Blocks


class Iteration(Launches):
    """The parts of an iteration, each a sequence of launches that can be recorded and replayed."""

    def begin(self) -> None:
        """Nesterov's acceleration and the surrogate at x̄; the intra observations linearized."""
        a, o = self.a, self.options
        decide.begin[(1,)](a.book, a.S, SP=self.SP, num_warps=1)
        if a.accelerated:
            self.extrapolate()
            self.rebase(a.bar, a.at_bar, guarded=False, gap=False)
            self.evaluate(a.x, (a.bar, a.at_bar), None, Row.ACTIVE)
            self.add_up(self.begin_jobs)
            decide.start[(1,)](a.book, a.S, THETA=bits(o.split), SP=self.SP, num_warps=1)
        self.linearize()
        self.assemble(a.bar, a.at_bar)

    def attempt(self, here: bool) -> None:
        """The damped system at x for the surrogate at x̄ or, `here`, at x; CG's first direction."""
        a = self.a
        base, surrogate = self.base(here)
        if here and a.accelerated:
            self.assemble(base, surrogate)
        self.damp(base, surrogate)
        self.eliminate()
        self.precondition()
        self.direction(first=True, parity=0)

    def gradients(self, count: int) -> None:
        """Iterations of CG, an even number; devices that have converged skip them."""
        assert count % 2 == 0
        for k in range(count):
            self.product(k % 2)
            self.update(k % 2)
            self.direction(first=False, parity=k % 2)

    def decide(self, here: bool) -> None:
        """Make the step, if CG has converged, and judge it."""
        a = self.a
        base, surrogate = self.base(here)
        self.move(base, surrogate)
        self.objective(a.new, Row.TRYING)
        if a.surrogate:
            second = (a.x, a.at_x) if a.accelerated and not here else None
            self.evaluate(a.new, (base, surrogate), second, Row.TRYING)
        self.add_up(self.step_jobs)
        self.judge(here)

    def base(self, here: bool) -> tuple[Estimate, Moments]:
        """The estimate that the surrogate in use was built at, and its moments."""
        a = self.a
        return (a.x, a.at_x) if here or not a.accelerated else (a.bar, a.at_bar)

    def endings(self) -> list[tuple[Callable[[], None], Blocks | None]]:
        """The end of an iteration, part by part, with what neighbours must be told after each: x⁺
        where a step was found, refinement, and the metrics. They do nothing until it is DONE."""
        a = self.a
        if not self.rounds:
            return [(self.settle, "both"), (self.finish, None)]
        parts: list[tuple[Callable[[], None], Blocks | None]] = [(self.settle, "cameras")]
        for n, block in enumerate(self.rounds):

            def refined(n: int = n, block: Blocks = block) -> None:
                if n == 0 and a.accelerated:
                    self.slack()
                self.refine(block, again=n == 2)

            parts.append((refined, block))
        return [*parts, (self.finish, None)]

    def finish(self) -> None:
        """The surrogate at x⁺, the metrics, and x ← x⁺."""
        a, o = self.a, self.options
        refined = bool(self.rounds)
        if refined:
            self.objective(a.new, Row.ALWAYS)
        if a.surrogate:
            self.rebase(a.new, a.at_x, guarded=True, gap=a.accelerated and not refined)
        self.add_up(self.finish_jobs)
        decide.finish[(1,)](
            a.book, a.S, ACCELERATED=a.accelerated, REFINED=refined, THETA=bits(o.split), XI=o.xi,
            GROWTH=bits(o.eta_growth), JUDGED=o.judged, SP=self.SP, num_warps=1,
        )  # fmt: skip
        if a.accelerated and o.resets:
            state.reset_momentum[(blocks_of(a.all_C, 64),)](
                a.bar.cameras, a.new.cameras, a.x.cameras, self.distance, a.camera_s, a.all_C,
                a.book, a.S, B=64, num_warps=2,
            )  # fmt: skip
        self.shift()
