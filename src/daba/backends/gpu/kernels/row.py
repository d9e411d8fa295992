"""Rows of the device table and values of its status, as Triton reads them."""

import triton.language as tl

from daba.backends.operations import Row, Status

globals().update({name.name: tl.constexpr(int(name)) for name in (*Row, *Status)})
