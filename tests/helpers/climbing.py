"""`daba` as it is, but for a solver that loses its way after the second iteration: F rises far
above its start."""

import sys
from typing import Any

from daba.runtime.loop import Loop

advance = Loop.advance


def climb(self: Any) -> None:
    """All points move away from the origin, by half their distance, after each iteration."""
    advance(self)
    if self.iteration > 2:
        states = self.solver.device_states()
        for arrays in states.values():
            arrays["points"] = 1.5 * arrays["points"]
        self.solver.put_back(states, self.solver.common_state())


if __name__ == "__main__":
    from daba.tools.cli import main

    Loop.advance = climb  # type: ignore[method-assign]
    sys.exit(main())
