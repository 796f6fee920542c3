"""Push-T: a disc pushes a T over a table until disc and T are at their goals; the library's `swm/PushT-v1`.

Physics is the library's engine, restarted from the state at every step so that a logged episode replays bit for bit
(push_t_physics.py says what that changes). Frames are the library's own picture (push_t_raster.py). Who demonstrates is a
mixture (push_t_demonstrators.py), with an expert of our own, because the library has none that solves the task.
"""

import numpy as np

from tdjepa.base.progress import progress
from tdjepa.base.streams import stream
from tdjepa.config.slices import CollectSlice
from tdjepa.envs import push_t_demonstrators as demonstrators
from tdjepa.envs import push_t_physics as physics
from tdjepa.envs.base import Demonstrations, Env
from tdjepa.envs.push_t_physics import SIZE, STATE, gap, touching
from tdjepa.envs.push_t_raster import raster
from tdjepa.envs.push_t_task import AGENT, BLOCK, REACHED, REACHED_ANGLE, errors, reached, sample

ANGLE = (-2 * np.pi, 2 * np.pi)  # of the block after the library's resets


class PushT(Env):
    name, width = "push_t", STATE
    success_text = (
        f"agent and block positions together are within {REACHED:g} px (4-d distance) and the block's angle within "
        "20 degrees of the goal's at any step of the budget"
    )
    renderer_difference = {"mean": 0.0001, "max": 1}

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """Episodes of the mixture. Those that are too short are replaced by episodes of the next streams."""
        kept, number = [], 0
        with progress(cfg.data.episodes, f"demonstrate {self.name}", "episodes") as bar:
            while len(kept) < cfg.data.episodes:
                episode = demonstrators.demonstrate(stream(cfg.seed, "collect", cfg.env, number), cfg.data)
                number += 1
                if len(episode.states) >= cfg.min_length:
                    kept.append(episode)
                    bar.update()
        states, actions, kinds = zip(*((e.states, e.actions, e.kind) for e in kept), strict=True)
        solved = np.array([e.solved for e in kept if np.isfinite(e.goal).all()])
        goals, facts = np.stack([e.goal for e in kept]), demonstrators.facts(kept, cfg.data)
        return Demonstrations.of(states, actions, goals, solved, kinds, **facts)

    def step(self, actions):
        self._state = physics.step(self._state, actions)

    def render(self, size):
        return raster(size)(self._state)

    def moved(self, shifts, n, size, rng):
        shifts = np.asarray(shifts) * (SIZE / size)  # image pixels -> world pixels
        edge, states = 50.0, []
        furthest = max(edge + 1, SIZE - edge - shifts.max())
        while len(states) < n:
            row = np.repeat(sample(rng)[None], len(shifts), 0)  # (shifts, 10)
            row[:, 0] = np.minimum(rng.uniform(edge, furthest) + shifts, SIZE - edge)
            if (gap(row) > 0).all():  # the agent does not cross the block on its way
                states.append(row)
        return [raster(size)(row) for row in np.stack(states, 1)]

    def success(self, goals):
        return reached(self._state, np.asarray(goals, np.float64))

    def distance(self, goals):
        position, angle = errors(self._state, np.asarray(goals, np.float64))
        return np.maximum(position / REACHED, angle / REACHED_ANGLE)

    def demands(self, starts, goals):
        """The block must be touched unless it lies within the tolerances, for an agent that is exactly at its goal."""
        agent, block = (np.hypot(*(goals - starts)[:, places].T) for places in (slice(0, 2), slice(2, 4)))
        turn = errors(starts, goals)[1]
        contact = (block >= REACHED) | (turn >= REACHED_ANGLE)
        return {"agent (px)": agent, "block (px)": block, "turn (rad)": turn, "needs contact": contact}

    def settled(self, states):
        return physics.settled(np.asarray(states))

    def contact_geometry(self, states):
        """World pixels from the agent's centre to the block's origin, the middle of the bar's long edge, and whether they
        touch, anywhere along the T; (N, 10) -> (N,), (N,) bool"""
        return np.hypot(states[:, 0] - states[:, 2], states[:, 1] - states[:, 3]), touching(states)

    def contact_after_reset(self, rng):
        """The same of a random state of the library's own; -> distance, touches?"""
        goal, start = ((*rng.uniform(*AGENT), *rng.uniform(*BLOCK), rng.uniform(*ANGLE)) for _ in range(2))
        return physics.after_reset(goal, start)


ENV = PushT
