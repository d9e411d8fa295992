"""`daba` as it is, but for a mistake that rank 1 meets in the third iteration."""

import sys
from typing import Any

from daba.cli import main
from daba.launch import communicator
from daba.run import Run

advance = Run.advance


def stumble(self: Any) -> None:
    if communicator().rank == 1 and self.iteration == 2:
        raise ZeroDivisionError("a mistake made on purpose")
    advance(self)


Run.advance = stumble  # type: ignore[method-assign]
sys.exit(main())
