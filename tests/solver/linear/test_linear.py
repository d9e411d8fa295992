"""Direct and iterative solutions of the reduced camera system on graphs of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from daba.backends.cpu.equations import Equations, Surrogate
from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.partition.partition import Partition, partition_from_arrays
from daba.problem.problem import Problem
from daba.solver.linear.cholesky import Cholesky
from daba.solver.linear.pcg import Pcg
from helpers import Stepped, dense_step, equations_of, random_problem, state_of

pytestmark = pytest.mark.usefixtures("compiled")

Edges = tuple[np.ndarray, np.ndarray]


def all_see_all(cameras: int, points: int) -> Edges:
    i, j = np.mgrid[:cameras, :points]
    return i.ravel(), j.ravel()


def chain(cameras: int, step: int = 4, window: int = 12) -> Edges:
    """Camera i sees points that only its next two neighbours see, too."""
    i = np.repeat(np.arange(cameras), window)
    return i, i * step + np.tile(np.arange(window), cameras)


def side_by_side(first: Edges, second: Edges) -> Edges:
    i, j = first[0].max() + 1, first[1].max() + 1
    return np.append(first[0], second[0] + i), np.append(first[1], second[1] + j)


def shuffled(edges: Edges, seed: int) -> Edges:
    """The same graph with cameras in another order."""
    order = np.random.default_rng(seed).permutation(edges[0].max() + 1)
    return order[edges[0]], edges[1]


def hub(cameras: int, each: int = 12) -> Edges:
    """Camera 0 sees everything, the others only their own points: an arrow matrix."""
    i, j = all_see_all(1, cameras * each)
    own = np.repeat(np.arange(cameras), each)
    return np.append(i, own[each:]), np.append(j, np.arange(each, cameras * each))


GRAPHS: dict[str, Edges] = {
    "dense": all_see_all(13, 20),
    "fewer cameras than a tile": all_see_all(3, 20),
    "exactly one tile": all_see_all(8, 20),
    "chain": chain(30),
    "chain in random order": shuffled(chain(30), 1),
    "ring": (np.append(chain(20)[0], [0] * 6), np.append(chain(20)[1], np.arange(82, 88))),
    "hub": hub(25),
    "disconnected": side_by_side(chain(12), all_see_all(11, 15)),
}


def problem_on(edges: Edges) -> Problem:
    return random_problem(
        3, cameras=int(edges[0].max()) + 1, points=int(edges[1].max()) + 1, edges=edges
    )


def step_on(problem: Problem, partition: Partition, linear: str) -> Stepped:
    options = Options(
        devices=partition.devices,
        linear_solver=linear,  # type: ignore[arg-type]
        pcg_forcing=0.0,
        pcg_residual=1e-14,
        pcg_iterations=5000,
    )
    radius = np.geomspace(20.0, 200.0, partition.devices)
    shard = make_shard(problem, partition)
    return dense_step(shard, partition, options, problem, problem, radius)


@pytest.mark.parametrize("linear", ["direct", "pcg"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_one_device_solves_any_graph(graph: str, linear: str) -> None:
    problem = problem_on(GRAPHS[graph])
    partition = partition_from_arrays(problem, np.zeros(problem.num_cameras, int))
    step = step_on(problem, partition, linear)
    step.check(tolerance=1e-10)
    np.testing.assert_allclose(step.decrease, step.expected_decrease, rtol=1e-10)


@pytest.mark.parametrize("linear", ["direct", "pcg"])
@pytest.mark.parametrize("sizes", [(1, 9, 20), (8, 8, 14), (10, 10, 10), (1,) * 30])
def test_devices_of_unequal_size_are_solved_together(sizes: tuple[int, ...], linear: str) -> None:
    problem = problem_on(GRAPHS["chain in random order"])
    partition = partition_from_arrays(problem, np.repeat(np.arange(len(sizes)), sizes))
    step = step_on(problem, partition, linear)
    step.check(tolerance=1e-10)
    np.testing.assert_allclose(step.decrease, step.expected_decrease, rtol=1e-10)


def direct_for(problem: Problem) -> Cholesky:
    partition = partition_from_arrays(problem, np.zeros(problem.num_cameras, int))
    solver = equations_of(make_shard(problem, partition), Options(linear_solver="direct")).linear
    assert isinstance(solver, Cholesky)
    return solver


def test_sparse_graphs_have_fewer_tiles() -> None:
    def share(edges: Edges) -> float:
        tile = direct_for(problem_on(edges)).plan.tile
        return float((tile >= 0).sum() / (len(tile) * (len(tile) + 1) / 2))

    assert share(all_see_all(64, 12)) == 1.0
    assert share(chain(64)) < 0.5
    assert share(shuffled(chain(64), 2)) < 0.5  # reordering finds the band again
    assert share(side_by_side(chain(32), chain(32))) < 0.5


def test_auto_takes_the_direct_solver_for_a_small_problem() -> None:
    problem = problem_on(GRAPHS["dense"])
    partition = partition_from_arrays(problem, np.zeros(13, int))
    shard = make_shard(problem, partition)
    assert isinstance(equations_of(shard, Options()).linear, Cholesky)
    assert isinstance(equations_of(shard, Options(linear_solver="pcg")).linear, Pcg)


def solved(equations: Equations, devices: int) -> tuple[np.ndarray, np.ndarray]:
    """The model's decrease, and iterations, with the first radius."""
    everyone = np.ones(devices, bool)
    equations.damp(np.full(devices, 100.0), everyone)
    decrease, iterations = equations.solve(everyone)
    return decrease, np.asarray(iterations)


def spoiled(linear: str) -> tuple[Equations, np.ndarray]:
    """Three devices; the second one's system is not positive definite."""
    problem = problem_on(GRAPHS["chain"])
    partition = partition_from_arrays(problem, np.repeat([0, 1, 2], 10))
    shard = make_shard(problem, partition)
    options = Options(method="daba", devices=3, linear_solver=linear)  # type: ignore[arg-type]
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    surrogate.rebase(state_of(shard, problem))
    equations = equations_of(shard, options)
    equations.assemble(shard.state(), surrogate)
    solved(equations, 3)
    good = equations.step_c.copy()
    equations.system.U[14] -= 1e9 * np.eye(9)
    return equations, good


@pytest.mark.parametrize("linear", ["direct", "pcg"])
def test_a_system_that_is_not_positive_definite_is_reported(linear: str) -> None:
    equations, good = spoiled(linear)
    decrease, _ = solved(equations, 3)
    assert not np.isnan(decrease).any()
    assert (decrease[[0, 2]] > 0).all()
    other = np.r_[:10, 20:30]
    np.testing.assert_array_equal(equations.step_c[other], good[other])
    if linear == "direct":
        assert decrease[1] == -np.inf
    else:  # conjugate gradients stop at the first direction of negative curvature
        assert np.isfinite(equations.step_c).all()


def test_pcg_stops_early_when_told_to() -> None:
    problem = problem_on(GRAPHS["chain"])
    partition = partition_from_arrays(problem, np.zeros(30, int))
    shard = make_shard(problem, partition)
    counts = []
    for forcing, residual, most in [(0.1, 1e-2, 500), (0.0, 1e-6, 5000), (0.0, 0.0, 7)]:
        options = Options(
            linear_solver="pcg", pcg_forcing=forcing, pcg_residual=residual, pcg_iterations=most
        )
        equations = equations_of(shard, options)
        surrogate = Surrogate(shard, options.loss, options.split, options.xi)
        surrogate.rebase(shard.state())
        equations.assemble(shard.state(), surrogate)
        _, count = solved(equations, 1)
        counts.append(int(count.sum()))
    assert counts[0] < counts[1] < 5000
    assert counts[2] == 7
