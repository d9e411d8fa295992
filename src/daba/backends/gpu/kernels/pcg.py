"""Preconditioned conjugate gradients, one α and β per device, all on the GPU.

What an iteration reads of the table it does not write: rows of even and odd iterations take turns.
Sums over a device are made by every program that needs them, in the same order.
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, row
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.schur import diagonal_block, slot_of


@jit
def inverse(A, TINY: tl.constexpr):
    """Inverse of the positive definite 9×9 in a tile (16, 16), by Gauss–Jordan. A pivot that
    rounding has eaten is replaced by TINY of the diagonal: the inverse only preconditions."""
    a = tl.arange(0, 16)
    here = a[:, None] == a[None, :]
    diagonal = tl.sum(tl.where(here, A, 0.0), axis=1)
    A = tl.where(here & (a[:, None] >= 9), 1.0, A)
    for k in tl.static_range(9):
        line = tl.sum(tl.where(a[:, None] == k, A, 0.0), axis=0)
        column = tl.sum(tl.where(a[None, :] == k, A, 0.0), axis=1)
        pivot = tl.sum(tl.where(a == k, line, 0.0), axis=0)
        least = TINY * tl.sum(tl.where(a == k, diagonal, 0.0), axis=0)
        pivot = 1.0 / tl.where(pivot > least, pivot, tl.maximum(least, 1e-300))
        new = A - column[:, None] * (line * pivot)[None, :]
        new = tl.where(a[:, None] == k, (line * pivot)[None, :], new)
        new = tl.where(a[None, :] == k, -(column * pivot)[:, None], new)
        A = tl.where((a[:, None] == k) & (a[None, :] == k), pivot, new)
    return tl.where((a[:, None] < 9) & (a[None, :] < 9), A, 0.0)


@jit
def precondition(
    owner, system, tiles, blocks, still, shares, M_inv, rhs, r, x, z, partial, table, S,
    CONSTRAINED: tl.constexpr, TINY: tl.constexpr,
):  # fmt: skip
    """Begin: the inverse of S's diagonal block of each camera, rhs = −g_c + W z, x = 0, r = rhs,
    z = M⁻¹ r, and by camera r·z. CONSTRAINED: there are constraints, and both come from `blocks`;
    what is `still` is cut out, and d of cameras that share it is told apart from poses."""
    i = tl.program_id(0)
    device = tl.load(owner + i)
    if tl.load(table + S * row.TRYING + device) == 0.0:
        return
    a = tl.arange(0, 16)
    cell = a[:, None] * 16 + a[None, :]
    if CONSTRAINED:
        M = tl.load(blocks + i * 256 + cell)
        b = tl.sum(tl.where(a[None, :] == 9, M, 0.0), axis=1)
        M = tl.where((a[:, None] < 9) & (a[None, :] < 9), M, 0.0)
        apart = (a[:, None] >= 6) ^ (a[None, :] >= 6)
        M = tl.where(apart & (tl.load(shares + i) != 0), 0.0, M)
        stays = tl.load(still + i * 16 + a) != 0
        M = tl.where(stays[:, None] | stays[None, :], 0.0, M)
        M = tl.where(stays[:, None] & (a[:, None] == a[None, :]), 1.0, M)
        b = tl.where(stays, 0.0, b)
    else:
        M, b = diagonal_block(system, tiles, i, 1.0 / tl.load(table + S * row.RADIUS + device))
    inv = inverse(M, TINY)
    tl.store(M_inv + i * 256 + cell, inv)
    s = tl.sum(inv * b[None, :], axis=1)
    tl.store(rhs + i * 16 + a, b)
    tl.store(r + i * 16 + a, b)
    tl.store(x + i * 16 + a, tl.zeros([16], tl.float64))
    tl.store(z + i * 16 + a, s)
    tl.store(partial + i, tl.sum(b * s, axis=0))


@jit
def total(partial, first, last):
    """Σ partial[first : last]."""
    o = tl.arange(0, 1024)
    sums = tl.zeros([1024], tl.float64)
    for n in range(first, last, 1024):
        sums += tl.load(partial + n + o, mask=n + o < last, other=0.0)
    return tl.sum(sums, axis=0)


@jit
def update(
    blocks, device_cameras, record_c, M_inv, Sp, still, rhs, r, x, z, dots, partial, N, table, S,
    CONSTRAINED: tl.constexpr, PARITY: tl.constexpr, STRIDE: tl.constexpr, NB: tl.constexpr,
):  # fmt: skip
    """x += α p, r −= α Sp, z = M⁻¹ r; by block −½ x·(rhs + r) and r·z, rows of (2, N). CONSTRAINED:
    there are constraints, and what is `still` has no entry in r."""
    n = tl.program_id(0)
    first = tl.load(blocks + 3 * n)
    last = tl.load(blocks + 3 * n + 1)
    device = tl.load(blocks + 3 * n + 2)
    if tl.load(table + S * (row.RUN + PARITY) + device) == 0.0:
        return
    begin = tl.load(device_cameras + device)
    pSp = total(dots, begin, tl.load(device_cameras + device + 1))
    rz = tl.load(table + S * (row.RZ + PARITY) + device)
    alpha = tl.where(pSp > 0.0, rz / pSp, 0.0)  # 0: rounding has eaten the curvature
    if first == begin:
        tl.store(table + S * row.ALPHA + device, alpha)
    i = first + tl.arange(0, NB)
    a = tl.arange(0, 16)
    mask = (i < last)[:, None] & (a < 9)[None, :]
    at = i[:, None] * 16 + a[None, :]
    p = tl.load(record_c + i[:, None] * STRIDE + slot_of(a)[None, :], mask=mask, other=0.0)
    xs = tl.load(x + at, mask=mask, other=0.0).to(tl.float64) + alpha * p
    rs = tl.load(r + at, mask=mask, other=0.0).to(tl.float64)
    changes = mask
    if CONSTRAINED:
        changes = mask & (tl.load(still + at, mask=mask, other=1) == 0)
    rs -= alpha * tl.load(Sp + at, mask=changes, other=0.0)
    b = tl.load(rhs + at, mask=mask, other=0.0).to(tl.float64)
    tl.store(x + at, xs, mask=mask)
    tl.store(r + at, rs, mask=mask)
    q = -0.5 * tl.sum(tl.sum(xs * (b + rs), axis=1), axis=0)
    c = tl.arange(0, 16)
    tile = tl.load(
        M_inv + i[:, None, None] * 256 + a[None, :, None] * 16 + c[None, None, :],
        mask=(i < last)[:, None, None], other=0.0,
    )  # fmt: skip
    zs = tl.sum(tile * rs[:, None, :], axis=2)
    tl.store(z + at, zs, mask=mask)
    tl.store(partial + n, q)
    tl.store(partial + N + n, tl.sum(tl.sum(rs * zs, axis=1), axis=0))


@jit
def direction(
    blocks, device_blocks, device_cameras, record_c, z, representative, dots, partial, N, table, S,
    CONSTRAINED: tl.constexpr, FIRST: tl.constexpr, PARITY: tl.constexpr, FORCING: tl.constexpr,
    RESIDUAL: tl.constexpr, MOST: tl.constexpr, STRIDE: tl.constexpr, NB: tl.constexpr,
):  # fmt: skip
    """p = z + β p, and whether a device goes on: it stops when its model stalls or its residual has
    fallen (`core/decisions.py`). FIRST: p = z. CONSTRAINED: there are constraints, and cameras that
    share d have that of their representative."""
    n = tl.program_id(0)
    first = tl.load(blocks + 3 * n)
    last = tl.load(blocks + 3 * n + 1)
    device = tl.load(blocks + 3 * n + 2)
    begin = tl.load(device_cameras + device)
    writes = first == begin
    if FIRST:
        if tl.load(table + S * row.TRYING + device) == 0.0:
            if writes:
                tl.store(table + S * row.RUN + device, 0.0)
            return
        rz = total(dots, begin, tl.load(device_cameras + device + 1))
        goes = rz > 0.0
        beta = rz * 0.0
        if writes:
            tl.store(table + S * row.RUN + device, goes.to(tl.float64))
            tl.store(table + S * row.RZ + device, rz)
            tl.store(table + S * row.RZ_START + device, rz)
            tl.store(table + S * row.Q + device, 0.0)
            tl.store(table + S * row.K + device, 0.0)
    else:
        k = tl.load(table + S * (row.K + PARITY) + device)
        if tl.load(table + S * (row.RUN + PARITY) + device) == 0.0:
            if writes:
                tl.store(table + S * (row.RUN + 1 - PARITY) + device, 0.0)
                tl.store(table + S * (row.K + 1 - PARITY) + device, k)
            return
        from_block = tl.load(device_blocks + device)
        to_block = tl.load(device_blocks + device + 1)
        new_q = total(partial, from_block, to_block)
        rz = total(partial + N, from_block, to_block)
        old = tl.load(table + S * (row.Q + PARITY) + device)
        solid = tl.load(table + S * row.ALPHA + device) > 0.0
        k += solid.to(tl.float64)
        stalls = decisions.model_stalls(k, new_q, old, double(FORCING))
        rz_start = tl.load(table + S * row.RZ_START + device)
        remains = decisions.residual_remains(rz, rz_start, double(RESIDUAL))
        goes = solid & (stalls == 0) & remains & (k < MOST)
        beta = rz / tl.load(table + S * (row.RZ + PARITY) + device)
        if writes:
            tl.store(table + S * (row.RUN + 1 - PARITY) + device, goes.to(tl.float64))
            tl.store(table + S * (row.RZ + 1 - PARITY) + device, rz)
            tl.store(table + S * (row.Q + 1 - PARITY) + device, new_q)
            tl.store(table + S * (row.K + 1 - PARITY) + device, k)
    if goes == 0:
        return
    i = first + tl.arange(0, NB)
    a = tl.arange(0, 16)
    mask = (i < last)[:, None] & (a < 9)[None, :]
    at = record_c + i[:, None] * STRIDE + slot_of(a)[None, :]
    at_z = i[:, None] * 16 + a[None, :]
    if CONSTRAINED:
        representatives = tl.load(representative + i, mask=i < last, other=0)
        at_z = tl.where(a[None, :] >= 6, representatives[:, None] * 16 + a[None, :], at_z)
    p = tl.load(z + at_z, mask=mask, other=0.0)
    if not FIRST:
        p = p + beta * tl.load(at, mask=mask, other=0.0)
    tl.store(at, p, mask=mask)
