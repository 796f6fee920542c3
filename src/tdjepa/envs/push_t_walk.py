"""How the Push-T demonstrator walks: the shortest way around the T that does not touch it, in the T's own frame."""

import numpy as np

from tdjepa.envs.push_t_physics import OUTLINE, RADIUS, SIZE, distance_to_t

CLEAR = 7.0  # pixels kept between agent and T on the way
INSIDE = 12.0  # neither the agent's centre nor a corner of the T is meant to come closer to the picture's edge

# where a way around the T may bend: outside its six outer corners; (6, 2)
OUT = np.array([[-1, -1], [1, -1], [1, 1], [1, 1], [-1, 1], [-1, 1]]) * (RADIUS + CLEAR)
TURNS = OUTLINE[[0, 1, 2, 6, 7, 3]] + OUT


def inside(points: np.ndarray) -> np.ndarray:
    """Whether points of the world are well inside the picture; (..., 2) -> (...)"""
    return ((points > INSIDE) & (points < SIZE - INSIDE)).all(-1)


def straight(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Lengths of the straight ways from a to b, infinite where the agent would touch the T; (..., 2), (..., 2) -> (...)"""
    a, b = np.broadcast_arrays(a, b)
    points = a[..., None, :] + (b - a)[..., None, :] * np.linspace(0, 1, 33)[:, None]
    blocked = (distance_to_t(points) < RADIUS + 3).any(-1)
    return np.where(blocked, np.inf, np.hypot(*np.moveaxis(b - a, -1, 0)))


class Ways:
    """The shortest ways from one point to several, bending only at the turns that may be used."""

    def __init__(self, start: np.ndarray, targets: np.ndarray, usable: np.ndarray):
        """start (2,), targets (T, 2), usable (6,) bool"""
        nodes = np.concatenate([TURNS[usable], start[None]])  # the start is the last node
        between = straight(nodes[:, None], nodes[None])
        step = np.broadcast_to(np.arange(len(nodes)), between.shape)  # the next node on the way from row to column
        for k in range(len(nodes)):  # Floyd and Warshall
            via = between[:, k, None] + between[None, k]
            step = np.where(via < between, step[:, k, None], step)
            between = np.minimum(via, between)
        total = between[-1][:, None] + straight(nodes[:, None], targets[None])  # (nodes, T)
        self.nodes, self.targets, self.step = nodes, targets, step
        self.last, self.length = total.argmin(0), total.min(0)

    def path(self, target: int) -> list[np.ndarray]:
        """The points to walk to one after the other, the target last."""
        node, points = len(self.nodes) - 1, []
        while node != self.last[target]:
            node = self.step[node, self.last[target]]
            points.append(self.nodes[node])
        return [*points, self.targets[target]]


def retreat(at: np.ndarray) -> np.ndarray:
    """The agent's place, moved straight away from the T until the agent is CLEAR of it; (2,) -> (2,)"""
    missing = RADIUS + CLEAR - float(distance_to_t(at))
    if missing <= 0:
        return at
    h = 1e-3
    uphill = np.array([distance_to_t(at + d) - distance_to_t(at - d) for d in ((h, 0.0), (0.0, h))])
    return at + uphill * (missing + 0.5) / max(np.hypot(*uphill), 1e-9)
