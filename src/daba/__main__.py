"""`python -m daba` is the command `daba`."""

import sys

from daba.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
