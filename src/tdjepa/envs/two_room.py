"""Two-Room, vectorised: the library's `swm/TwoRoom-v1` with its default layout, thousands of copies at a time.

A dot moves in a square that a vertical wall with one door divides. The arithmetic is the library's, in float32 and in the
same order, so states are bit-equal to those of its environment (tests/test_two_room.py steps both).
"""

from functools import cache
from itertools import count

import numpy as np

from tdjepa.base.streams import stream
from tdjepa.config.records.data import TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import Demonstrations, Env

SIZE = 224  # the world is measured in pixels of the library's own image
BORDER, BORDER_LINE = 14, 4
WALL, WALL_HALF = 112, 5  # centre and half thickness of the dividing wall
DOOR, DOOR_HALF, DOOR_MARGIN = 49, 14, 1.75
RADIUS, SPEED, REACHED = 7.0, 5.0, 16.0
DOOR_NEAR = 10.5  # the expert turns from the door to the goal once it is this close to the door

f32 = np.float32


class TwoRoom(Env):
    name, width, dtype = "two_room", 2, f32
    success_text = f"the agent comes within {REACHED:g} px of the goal position at any step of the budget"
    renderer_difference = {"mean": 0.06, "max": 2}

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """Expert episodes. Those that are too short are replaced by episodes of the next streams."""
        kept, numbers = [], count()
        while len(kept) < cfg.data.episodes:
            rngs = [stream(cfg.seed, "collect", cfg.env, next(numbers)) for _ in range(512)]
            for states, actions, steps, goal in zip(*demonstrate(rngs, cfg.data), strict=True):
                if steps + 1 >= cfg.min_length:
                    kept.append((states[: steps + 1], actions[:steps], goal))
        states, actions, goals = zip(*kept[: cfg.data.episodes], strict=True)
        goal = np.stack(goals)
        return Demonstrations.of(states, actions, goal, reached(np.stack([s[-1] for s in states]), goal))

    def step(self, actions):
        self._state = step(self._state, actions)

    def render(self, size):
        return renderer(size)(self._state)

    def moved(self, shifts, n, size, rng):
        low, high = BORDER + RADIUS, SIZE - BORDER - RADIUS
        shifts = np.asarray(shifts) * (SIZE / size)  # image pixels -> world pixels
        x, y = rng.uniform(low, max(low + 1, high - shifts.max()), n), rng.uniform(low, high, n)
        return [renderer(size)(np.stack([np.minimum(x + shift, high), y], 1)) for shift in shifts]

    def success(self, goals):
        return reached(self._state, np.asarray(goals, f32))

    def distance(self, goals):
        return _norm(self._state - np.asarray(goals, f32)) / REACHED

    def demands(self, starts, goals):
        return {"agent (px)": _norm(goals - starts), "through the door": (starts[:, 0] < WALL) != (goals[:, 0] < WALL)}


def step(position: np.ndarray, action: np.ndarray) -> np.ndarray:
    """One step of N agents: move, stay inside the border, stop at the wall unless in the door. (N, 2), (N, 2) -> (N, 2)"""
    moved = position + np.clip(action.astype(f32), f32(-1), f32(1)) * f32(SPEED)
    moved = np.clip(moved, f32(BORDER + RADIUS), f32(SIZE - BORDER - RADIUS))
    left_face, right_face = WALL - WALL_HALF - RADIUS, WALL + WALL_HALF + RADIUS
    in_door = (moved[:, 1] >= DOOR - DOOR_HALF - DOOR_MARGIN) & (moved[:, 1] <= DOOR + DOOR_HALF + DOOR_MARGIN)
    from_left = position[:, 0] < WALL
    moved[from_left & (moved[:, 0] > left_face) & ~in_door, 0] = left_face - 0.5
    moved[~from_left & (moved[:, 0] < right_face) & ~in_door, 0] = right_face + 0.5
    return moved


def reached(position: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return _norm(position - goal) < f32(REACHED)


def sample_positions(rng: np.random.Generator, in_wall: bool) -> np.ndarray:
    """A uniform position. The agent's avoids the wall; a target may lie in it, as in the library."""
    while True:
        position = rng.uniform(BORDER, SIZE - BORDER - 1, 2).astype(f32)
        if in_wall or not WALL - WALL_HALF - RADIUS <= position[0] <= WALL + WALL_HALF + RADIUS:
            return position


def expert(position: np.ndarray, goal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The library's expert: straight to the goal, or to the door if the goal is in the other room, plus noise. (N, 2)"""
    door = np.array([WALL, DOOR], f32)
    other_room = (position[:, 0] > WALL) != (goal[:, 0] > WALL)
    via_door = other_room & (_norm(door - position) > DOOR_NEAR)
    direction = np.where(via_door[:, None], door, goal) - position
    length = _norm(direction)
    direction = direction / np.where(length > 1e-8, length, f32(1))[:, None]
    return np.clip(direction + noise.astype(f32), f32(-1), f32(1))


def demonstrate(rngs: list[np.random.Generator], data: TwoRoomData):
    """Run the expert once per generator, up to the goal or max_steps; rows past an episode's end are undefined.
    -> states (N, max_steps + 1, 2), actions (N, max_steps, 2), steps (N,), goals (N, 2)"""
    n, max_steps = len(rngs), data.max_steps
    position = np.stack([sample_positions(rng, in_wall=False) for rng in rngs])
    goal = np.stack([sample_positions(rng, in_wall=True) for rng in rngs])
    noise = np.stack([rng.normal(0.0, data.action_noise, (max_steps, 2)) for rng in rngs])
    states, actions = np.zeros((n, max_steps + 1, 2), f32), np.zeros((n, max_steps, 2), f32)
    steps, done = np.full(n, max_steps), np.zeros(n, bool)
    states[:, 0] = position
    for t in range(max_steps):
        actions[:, t] = expert(position, goal, noise[:, t])
        position = step(position, actions[:, t])
        states[:, t + 1] = position
        arrived = reached(position, goal)
        steps[arrived & ~done] = t + 1
        done |= arrived
    return states, actions, steps, goal


def _norm(v: np.ndarray) -> np.ndarray:
    """Row norms in float32, rounded as `np.linalg.norm` of a single vector rounds them."""
    return np.sqrt(np.einsum("ni,ni->n", v, v))


class Renderer:
    """Frames of N positions at once, at any size, without drawing 224-px images first.

    The library draws a Gaussian dot over the rooms at 224 px and resizes with PIL's bilinear filter, which is a matrix R
    on either side. The dot is separable, a(y) a(x), and the rooms have two kinds of rows (with wall, with door) besides
    black ones. So a frame, rooms * (1 - dot) resized, takes three outer products of resized 1-d profiles. It is exact up
    to the library's own rounding to 8 bits at 224 px.
    """

    def __init__(self, size: int):
        rooms = _rooms()
        rows, kind = np.unique(rooms, axis=0, return_inverse=True)  # the distinct rows, and which row is which
        resize = _bilinear(size)  # R, (size, 224)
        self.size = size
        self.empty = (resize @ rooms @ resize.T).astype(f32)
        self.blank = np.repeat((self.empty + f32(0.5)).astype(np.uint8)[..., None], 3, axis=2)
        lit = [k for k in range(len(rows)) if rows[k].any()]
        # x and y profiles of the dot, cut by each kind of row and resized; the last pair is the dot itself
        self.to_y = np.concatenate([((kind == k)[:, None] * resize.T) for k in lit] + [resize.T], 1).astype(f32)
        self.to_x = np.concatenate([rows[k][:, None] * resize.T for k in lit] + [255 * resize.T], 1).astype(f32)
        self.parts = len(lit) + 1
        # beyond 4 radii the dot is below a tenth of a grey level; one filter width more on either side
        self.box = min(size, int(2 * (4 * RADIUS * size / SIZE + 2)) + 1)

    def __call__(self, position: np.ndarray, chunk: int = 256) -> np.ndarray:
        """(N, 2) positions in world pixels -> (N, size, size, 3) uint8; chunks stay in the cache."""
        frames = np.empty((len(position), self.size, self.size, 3), np.uint8)
        frames[:] = self.blank
        for i in range(0, len(position), chunk):
            self._draw(position[i : i + chunk].astype(f32), frames[i : i + chunk])
        return frames

    def _draw(self, position, frames):
        """Paint the dots; only the box around a dot differs from the empty rooms."""
        n, s, p, b = len(position), self.size, self.parts, self.box
        profile = np.exp(-((np.arange(SIZE, dtype=f32) - position[:, :, None]) ** 2) / f32(2 * RADIUS**2))
        profile /= profile.max(-1, keepdims=True)  # (n, 2, 224)
        corner = np.clip((position * (s / SIZE)).astype(int) - b // 2, 0, s - b)  # (n, 2) left and top of the box
        inside = corner[:, :, None] + np.arange(b)  # (n, 2, b)
        x = np.take_along_axis((profile[:, 0] @ self.to_x).reshape(n, p, s), inside[:, None, 0], 2)[:, :, None, :]
        y = np.take_along_axis((profile[:, 1] @ self.to_y).reshape(n, p, s), inside[:, None, 1], 2)[:, :, :, None]
        light = self.empty[inside[:, 1, :, None], inside[:, 0, None, :]] + f32(0.5)  # + 0.5: round, do not cut
        for k in range(p - 1):
            light -= y[:, k] * x[:, k]
        dot = np.empty((n, b, b, 3), np.uint8)
        dot[..., 1] = dot[..., 2] = light
        dot[..., 0] = light + y[:, -1] * x[:, -1]  # the dot is pure red
        for frame, (left, top), box in zip(frames, corner.tolist(), dot, strict=True):
            frame[top : top + b, left : left + b] = box


renderer = cache(Renderer)


def _rooms() -> np.ndarray:
    """The empty rooms at 224 px: white, with black border lines, wall and door. (224, 224) in 0..255"""
    y, x = np.mgrid[:SIZE, :SIZE]
    in_door = (y >= DOOR - DOOR_HALF) & (y <= DOOR + DOOR_HALF)
    black = (x >= WALL - WALL_HALF) & (x <= WALL + WALL_HALF) & ~in_door
    for lo in (BORDER - BORDER_LINE, SIZE - BORDER):
        black[lo : lo + BORDER_LINE, :] = black[:, lo : lo + BORDER_LINE] = True
    return np.where(black, 0.0, 255.0)


def _bilinear(size: int) -> np.ndarray:
    """PIL's bilinear (triangle) filter from 224 to `size` as a matrix; (size, 224), rows sum to 1."""
    scale = SIZE / size
    centre = (np.arange(size)[:, None] + 0.5) * scale
    distance = np.abs(np.arange(SIZE) + 0.5 - centre) / max(scale, 1.0)
    weight = np.maximum(0.0, 1.0 - distance)
    return weight / weight.sum(1, keepdims=True)


ENV = TwoRoom
