"""The order in which frames are eliminated."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee as of_scipy

from daba.solver.elimination import reverse_cuthill_mckee


def test_reverse_cuthill_mckee_is_that_of_scipy() -> None:
    """Also of graphs in several parts, without any edge, and of bands."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        graph = rng.random((n, n)) < rng.choice([0.0, 0.02, 0.1, 0.5, 1.0])
        if seed % 3 == 0:
            graph &= abs(np.subtract.outer(np.arange(n), np.arange(n))) < 5
        graph = (graph | graph.T) & ~np.eye(n, dtype=bool)
        expected = of_scipy(csr_array(graph), symmetric_mode=True)
        assert reverse_cuthill_mckee(graph).tolist() == expected.tolist()
