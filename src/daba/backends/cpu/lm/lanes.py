"""Template: points side by side, one in each lane of vectors (`vectors.py`).

Lanes that are done wait for the others, so points are taken in the order of how many observations
they have, a batch at a time; what a point gets does not depend on who is beside it.
"""

# ruff: noqa: F821

BATCH = 256
"""Points that are put in order."""
LENGTHS = 64
"""Numbers of observations that are told apart; what has more is together."""


class Lanes(NamedTuple):
    """Which observation each lane looks at."""

    point: Int64
    frame: Int64
    sensor: Int64
    camera: Int64
    x: Floats
    y: Floats
    weight: Floats
    obs: Int64
    """Which it is; −1 for none."""
    room: Matrix
    """For what is handed over point by point."""


@inline
def make_lanes():
    return Lanes(
        np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64),
        np.zeros(LANES, np.int64), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES),
        np.zeros(LANES, np.int64), np.zeros((LANES, 12)),
    )  # fmt: skip


@inline
def take_points(lanes, order, begin, count):
    """The next points of a batch; the last of them more than once, where there are too few."""
    for n in range(LANES):
        lanes.point[n] = order[min(begin + n, count - 1)]


@inline
def longest(lanes, obs):
    """Observations of the point that has most."""
    most = 0
    for n in range(LANES):
        j = lanes.point[n]
        most = max(most, obs.point_ptr[j + 1] - obs.point_ptr[j])
    return most


@inline
def look_at(lanes, obs, images, x, m):
    """The m-th observation of each lane's point: frames, sensors, cameras, pixels, and ω², which is
    0 where there is none."""
    for n in range(LANES):
        j = lanes.point[n]
        k = obs.point_ptr[j] + m
        there = k < obs.point_ptr[j + 1]
        lanes.obs[n] = k if there else -1
        k = k if there else 0
        i = obs.image[k]
        lanes.frame[n] = obs.frame[k]
        lanes.camera[n] = images.camera[i]
        if RIG:
            lanes.sensor[n] = images.sensor[i]
        lanes.x[n] = obs.xy[k, 0]
        lanes.y[n] = obs.xy[k, 1]
        lanes.weight[n] = obs.weight[k] if there else 0.0
    frame = read_frames(x.frames, lanes.frame, 0)
    sensor = frame
    if RIG:
        sensor = read_frames(x.sensors, lanes.sensor, 0)
    weight = read(lanes.weight, 0)
    camera = read_cameras(x.params, lanes.camera, 0)
    return frame, sensor, camera, read(lanes.x, 0), read(lanes.y, 0), weight * weight


@inline
def by_length(obs, first, last, order, counts):
    """Points first : last in the order of how many observations they have."""
    for n in range(LENGTHS + 1):
        counts[n] = 0
    for j in range(first, last):
        length = min(obs.point_ptr[j + 1] - obs.point_ptr[j], LENGTHS - 1)
        counts[length + 1] += 1
    for n in range(LENGTHS):
        counts[n + 1] += counts[n]
    for j in range(first, last):
        length = min(obs.point_ptr[j + 1] - obs.point_ptr[j], LENGTHS - 1)
        order[counts[length]] = j
        counts[length] += 1
