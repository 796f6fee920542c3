"""The mechanics of Push-T: a disc that is steered pushes a T over a table with walls, in the library's physics engine.

The library keeps one pymunk space for a whole episode. Its contact solver then carries impulses from one step to the next
that no state holds, so a restored state does not continue as the logged one did. Here every environment step builds the
space anew from the state: the next state is a function of state and action alone, bit for bit, in any order and batch.

One step is bit-equal to the library's, except in a few states where the T is wedged between agent and wall. After 25 actions
the agent is still bit-equal. The block is off by a median of 0.02 px in the expert's episodes (at most 1.3 px) and of 0.1 px
in the weak policy's, where 10 % of the runs part by more than 8 px: the solver's memory decides where a wedged T escapes.
"""

import math
from functools import cache

import numpy as np
import pymunk

SIZE = 512  # the table, in world pixels
RADIUS = 15.0  # of the agent
BAR = ((-60.0, 0.0), (60.0, 30.0))  # the two boxes of the T, low and high corner in its own frame
STEM = ((-15.0, 30.0), (15.0, 120.0))
CENTRE = (0.0, 45.0)  # of gravity, as the library has it: the mean of the two boxes' centres
INERTIA = 3000.0  # about it, for mass 1: twice the bar's about the middle of its long edge
WALLS, WALL_RADIUS = (((5, 506), (5, 5)), ((5, 5), (506, 5)), ((506, 5), (506, 506)), ((5, 506), (506, 506))), 2

REACH = 100.0  # an action of 1 asks the agent to go this far
STIFFNESS, DRAG, DT, SUBSTEPS = 100.0, 20.0, 0.01, 10  # the agent's controller

# a state: agent x y, block x y (middle of the bar's long edge), block angle in [0, 2 pi), agent velocity x y, which is
# the library's state, and the block's velocity x y and spin
STATE = 10


def corners(box) -> list[tuple[float, float]]:
    """The corners of a box, in the order in which the library draws them."""
    (x0, y0), (x1, y1) = box
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


OUTLINE = np.array([*corners(BAR), *corners(STEM)])  # (8, 2)


def build(state) -> tuple[pymunk.Space, pymunk.Body, pymunk.Body]:
    """A fresh space in this state, put together in the library's order; state: 10 floats."""
    x, y, block_x, block_y, angle, vx, vy, block_vx, block_vy, spin = state
    space = pymunk.Space()
    space.gravity, space.damping = (0, 0), 0  # no speed outlasts a step, so the block moves only while it is pushed
    space.add(*[pymunk.Segment(space.static_body, a, b, WALL_RADIUS) for a, b in WALLS])
    agent = pymunk.Body(body_type=pymunk.Body.KINEMATIC)
    agent.position, agent.velocity = (x, y), (vx, vy)
    space.add(agent, pymunk.Circle(agent, RADIUS))
    block = pymunk.Body(1, INERTIA)
    shapes = [pymunk.Poly(block, corners(box)) for box in (BAR, STEM)]
    block.center_of_gravity = CENTRE
    block.angle = angle  # before the position: turning is about the centre of gravity, the position is the origin's
    block.position, block.velocity, block.angular_velocity = (block_x, block_y), (block_vx, block_vy), spin
    space.add(block, *shapes)
    return space, agent, block


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """One environment step of each copy: the agent is drawn to a point REACH * action away for a tenth of a second.
    (N, 10), (N, 2) -> (N, 10); the arithmetic is the library's, in its order."""
    after = np.empty((len(states), STATE))
    for i, (state, action) in enumerate(zip(states.tolist(), np.asarray(actions, float).tolist(), strict=True)):
        space, agent, block = build(state)
        to_x, to_y = state[0] + action[0] * REACH, state[1] + action[1] * REACH
        for _ in range(SUBSTEPS):
            (x, y), (vx, vy) = agent.position, agent.velocity
            ax, ay = STIFFNESS * (to_x - x) - DRAG * vx, STIFFNESS * (to_y - y) - DRAG * vy
            agent.velocity = vx + ax * DT, vy + ay * DT
            space.step(DT)
        after[i] = _state_of(agent, block)
    return after


def _state_of(agent: pymunk.Body, block: pymunk.Body) -> tuple[float, ...]:
    moving = (*agent.velocity, *block.velocity, block.angular_velocity)
    return (*agent.position, *block.position, block.angle % (2 * math.pi), *moving)


@cache
def response() -> tuple[float, float]:
    """The agent moves by  a * REACH * action + b * velocity  in one step, whatever it touches. -> a, b"""
    moved = []
    for pull, velocity in ((1.0, 0.0), (0.0, 1.0)):
        x = 0.0
        for _ in range(SUBSTEPS):
            velocity += (STIFFNESS * (pull - x) - DRAG * velocity) * DT
            x += velocity * DT
        moved.append(x)
    return tuple(moved)


def world(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points of the block's frame in the world; pose (..., 3) = x, y, angle, points (..., P, 2) -> (..., P, 2)"""
    c, s = np.cos(pose[..., 2, None]), np.sin(pose[..., 2, None])
    x, y = points[..., 0], points[..., 1]
    return np.stack([pose[..., 0, None] + c * x - s * y, pose[..., 1, None] + s * x + c * y], -1)


def local(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    """A point of the world in the block's frame; (..., 3), (..., 2) -> (..., 2)"""
    c, s = np.cos(pose[..., 2]), np.sin(pose[..., 2])
    dx, dy = point[..., 0] - pose[..., 0], point[..., 1] - pose[..., 1]
    return np.stack([c * dx + s * dy, c * dy - s * dx], -1)


def distance_to_t(points: np.ndarray) -> np.ndarray:
    """Distance of points in the block's frame to the T, negative inside a box of it; (..., 2) -> (...)"""
    nearest = []
    for low, high in (BAR, STEM):
        beyond = np.maximum(np.subtract(low, points), np.subtract(points, high))
        nearest.append(np.hypot(*np.moveaxis(np.maximum(beyond, 0), -1, 0)) + np.minimum(beyond.max(-1), 0))
    return np.minimum(*nearest)


def gap(states: np.ndarray) -> np.ndarray:
    """World pixels between the agent's edge and the T, negative where they overlap; (N, 10) -> (N,)"""
    return distance_to_t(local(states[:, 2:5], states[:, :2])) - RADIUS


def touching(states: np.ndarray) -> np.ndarray:
    """Whether the agent touches the T; while it pushes, the solver lets shapes overlap by a tenth of a pixel and more. (N,)"""
    return gap(states) < 0.5


def settled(states: np.ndarray) -> np.ndarray:
    """The states that the library has after it restored these: it forgets the block's speed and runs the physics for 10 ms, so
    the agent is a little further on its way; (N, 10) -> (N, 10)"""
    after = np.array(states, float)
    for state in after:
        space, agent, block = build([*state[:7], 0.0, 0.0, 0.0])
        space.step(DT)
        state[:] = _state_of(agent, block)
    return after


def after_reset(goal, start) -> tuple[float, bool]:
    """What the library says of agent and block after a reset into these states (x, y, block x, y, angle): the distance between
    them, and whether anything touched anything, walls too, in the 10 ms that it runs the physics in either state."""
    space, agent, block = build([*goal, *np.zeros(5)])
    touches = []
    space.on_collision(0, 0, post_solve=lambda arbiter, space, data: touches.append(arbiter))
    space.step(DT)
    agent.velocity, agent.position = (0.0, 0.0), tuple(start[:2])
    block.angle, block.position = start[4], tuple(start[2:4])
    space.step(DT)
    return math.dist(agent.position, block.position), bool(touches)
