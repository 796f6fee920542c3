"""A demonstrator for Push-T, which the library lacks: it brings the T to its goal pose, then the agent to its goal.

Contact has no friction, and the block stops when it is not pushed. So pushing one point of its edge along the edge's normal n
moves it with a constant twist in its own frame: the centre of gravity along n, with a turn of L / I per pixel, where L is the
lever of n about that centre and I the inertia. Where a push ends is thus known in closed form. The demonstrator looks two
pushes ahead over all points and lengths, walks around the T to the first point, pushes, and looks again.
"""

import math
from functools import cache

import numpy as np

from tdjepa.envs.push_t_physics import BAR, CENTRE, INERTIA, OUTLINE, RADIUS, STEM, local, world
from tdjepa.envs.push_t_walk import CLEAR, TURNS, Ways, inside, retreat

LENGTHS = np.array([3.0, 6.0, 10.0, 16.0, 24.0, 34.0, 46.0, 60.0, 80.0, 105.0])  # of a push, at the centre of gravity
ARM = 45.0  # pixels that a radian of error counts
PATH = 0.12  # pixels of error that a pixel of walking counts
UNDONE = 40.0  # pixels of error that are added while the block is not placed, since it needs yet another push
CLOSE, CLOSE_ANGLE = 9.0, 0.2  # the block is where it should be; the rest of the tolerance is left to the agent
BEAM = 24  # first pushes that are thought through
FREE = np.ones(len(TURNS), bool)  # every turn may be used


def contacts() -> tuple[np.ndarray, np.ndarray]:
    """Points of the T's edge and the inward normals there, wherever the agent has room, in the T's frame; (K, 2), (K, 2)"""
    (left, top), (right, under) = BAR
    (stem_left, _), (stem_right, end) = STEM
    room, rim = RADIUS + CLEAR + 2, 4.0
    faces = [  # from, to, normal
        ((left + rim, top), (right - rim, top), (0, 1)),
        ((left + rim, under), (stem_left - room, under), (0, -1)),
        ((stem_right + room, under), (right - rim, under), (0, -1)),
        ((left, top + rim), (left, under - rim), (1, 0)),
        ((right, top + rim), (right, under - rim), (-1, 0)),
        ((stem_left, under + room), (stem_left, end - rim), (1, 0)),
        ((stem_right, under + room), (stem_right, end - rim), (-1, 0)),
        ((stem_left + rim, end), (stem_right - rim, end), (0, -1)),
    ]
    points = [np.linspace(a, b, max(2, round(math.dist(a, b) / 9) + 1)) for a, b, _ in faces]
    normals = [np.repeat([normal], len(p), 0) for p, (_, _, normal) in zip(points, faces, strict=True)]
    return np.concatenate(points), np.concatenate(normals).astype(float)


POINTS, NORMALS = contacts()
ARMS = POINTS - CENTRE
LEVERS = ARMS[:, 0] * NORMALS[:, 1] - ARMS[:, 1] * NORMALS[:, 0]  # (K,)
# the turn of the block, and the way of the contact, per pixel of the centre's way; (K,)
TURN, TRAVEL = LEVERS / INERTIA, 1 + LEVERS**2 / INERTIA
STANDS = POINTS - (RADIUS + CLEAR) * NORMALS  # where the agent stands before it pushes; (K, 2)


@cache
def walks() -> np.ndarray:
    """The lengths of the ways between stands; (K, K)"""
    return np.stack([Ways(stand, STANDS, FREE).length for stand in STANDS])


def pushed(pose: np.ndarray, which, length) -> np.ndarray:
    """Where a push of `length` at contact `which` brings a block; pose (..., 3) = x, y, angle, all broadcast. -> (..., 3)"""
    turn, normal = TURN[which] * length, NORMALS[which]
    chord = length * np.sinc(turn / (2 * np.pi))  # the centre runs on an arc: its chord points along half the turn
    c, s = np.cos(pose[..., 2] + turn / 2), np.sin(pose[..., 2] + turn / 2)
    after = pose[..., 2] + turn
    x = pose[..., 0] + chord * (c * normal[..., 0] - s * normal[..., 1])
    y = pose[..., 1] + chord * (s * normal[..., 0] + c * normal[..., 1])
    arm = CENTRE[1]  # the centre lies that far down the stem, and the pose is that of the frame's origin
    x += arm * (np.sin(after) - np.sin(pose[..., 2]))
    y -= arm * (np.cos(after) - np.cos(pose[..., 2]))
    return np.stack([x, y, after], -1)


def error(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Pixels between two poses, a radian counted as ARM of them; (..., 3), (3,) -> (...)"""
    off = pose - goal
    return np.sqrt(off[..., 0] ** 2 + off[..., 1] ** 2 + (ARM * wrap(off[..., 2])) ** 2)


def placed(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Whether the block is where it should be; (..., 3), (3,) -> (...)"""
    off = pose - goal
    return (np.hypot(off[..., 0], off[..., 1]) < CLOSE) & (np.abs(wrap(off[..., 2])) < CLOSE_ANGLE)


def remaining(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """What is left to do, in pixels of error; (..., 3), (3,) -> (...)"""
    return error(pose, goal) + UNDONE * ~placed(pose, goal)


def wrap(angle):
    return (angle + np.pi) % (2 * np.pi) - np.pi


def choose(pose: np.ndarray, agent: np.ndarray, goal: np.ndarray) -> tuple[int, np.ndarray, list[np.ndarray]] | None:
    """The first of the two pushes that leave the least to do for the least walking; None if every contact is shut off.
    pose (3,), agent (2,) in the T's frame, goal (3,) -> contact, the pose after the push, the points to walk to"""
    which, travel = np.arange(len(STANDS))[:, None], TRAVEL[:, None] * LENGTHS  # (K, 1), (K, M)
    ways = Ways(agent, STANDS, inside(world(pose, TURNS)))
    first = pushed(pose, which, LENGTHS)  # (K, M, 3)
    allowed = inside(world(first, OUTLINE)).all(-1) & inside(world(pose, STANDS))[:, None]
    walk = np.where(allowed, ways.length[:, None] + travel, np.inf)
    one = remaining(first, goal) + PATH * walk
    best = np.argsort(one, axis=None, kind="stable")[:BEAM]
    best = best[np.isfinite(one.flat[best])]
    if not len(best):
        return None
    k, m = np.unravel_index(best, one.shape)
    second = pushed(first[k, m][:, None, None], which, LENGTHS)  # (B, K, M, 3)
    more = walk[k, m][:, None, None] + walks()[k][:, :, None] + travel
    two = (remaining(second, goal) + PATH * more).min((1, 2))
    i = np.minimum(one[k, m], two).argmin()
    return int(k[i]), first[k[i], m[i]], ways.path(k[i])


class Pusher:
    """The demonstrator of one episode: called with every state, it gives the step that the agent should make."""

    def __init__(self, goal: np.ndarray, speed: float):  # (10,), world pixels per step
        self.agent_goal, self.goal, self.speed = goal[:2], goal[2:5], speed
        self.path: list[np.ndarray] = []  # points of the world to walk to
        self.contact, self.end = None, None  # what to push then, and the pose the block should end in
        self.pose = None  # the block's when the plan was made

    def __call__(self, state: np.ndarray) -> np.ndarray:
        """(10,) -> (2,) world pixels"""
        agent, pose = state[:2], state[2:5]
        if self.pose is None or (self.path and error(pose, self.pose) > 1.5):  # the block was brushed on the way
            self.plan(pose, agent)
        while self.path and math.dist(self.path[0], agent) < 5:
            self.path.pop(0)
        if not self.path and self.contact is not None:
            if (to := self.pushing(pose, agent)) is not None:
                return self.limited(to - agent)
            self.plan(pose, agent)
        return self.limited(self.path[0] - agent) if self.path else np.zeros(2)

    def plan(self, pose: np.ndarray, agent: np.ndarray) -> None:
        """What to push next and the way there; the way to the agent's own goal once the block is placed."""
        self.pose, self.contact = pose, None
        away = retreat(local(pose, agent))
        choice = None if placed(pose, self.goal) else choose(pose, away, self.goal)
        if choice is None:
            path = Ways(away, local(pose, self.agent_goal)[None], FREE).path(0)
        else:
            self.contact, self.end, path = choice
        self.path = list(world(pose, np.array([away, *path])))

    def pushing(self, pose: np.ndarray, agent: np.ndarray) -> np.ndarray | None:
        """Where the agent has to be one step later; None if the push is over or the agent has slipped off. -> (2,)"""
        lengths = np.arange(0, LENGTHS[-1] + 1)
        rest = lengths[error(pushed(pose, self.contact, lengths), self.end).argmin()]
        normal = NORMALS[self.contact]
        touch = POINTS[self.contact] - RADIUS * normal
        slip = local(pose, agent) - touch
        if rest < 1 or slip @ normal < -2 * CLEAR or abs(slip[0] * normal[1] - slip[1] * normal[0]) > 12:
            return None
        after = pushed(pose, self.contact, min(rest, self.speed / TRAVEL[self.contact]))
        return world(after, touch[None])[0]

    def limited(self, way: np.ndarray) -> np.ndarray:
        return way * min(1.0, self.speed / max(math.hypot(*way), 1e-9))
