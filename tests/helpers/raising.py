"""`daba` as it is, but for a mistake that rank 1 meets in the third iteration."""

import sys
from typing import Any

from daba.distributed.comm.launcher import communicator
from daba.runtime.loop import Loop
from daba.tools.cli import main

advance = Loop.advance


def stumble(self: Any) -> None:
    if communicator().rank == 1 and self.iteration == 2:
        raise ZeroDivisionError("a mistake made on purpose")
    advance(self)


Loop.advance = stumble  # type: ignore[method-assign]
sys.exit(main())
