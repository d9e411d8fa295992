"""The one exception users are expected to see."""


class DabaError(Exception):
    """Bad input or an impossible request; the message says what, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class GpuMemoryError(DabaError):
    """A GPU has too little."""


class DabaWarning(UserWarning):
    """Something about the input is suspicious, but the result is still correct."""
