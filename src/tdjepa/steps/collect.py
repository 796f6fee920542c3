"""`tdjepa collect`: demonstrations of one environment, seeded per episode, as one episodes file with its card.

tdjepa collect --env two_room --scale desk
"""

from pathlib import Path

import h5py
import numpy as np

from tdjepa.base.artefacts import publish, write_card
from tdjepa.base.progress import progress
from tdjepa.config.slices import CollectSlice
from tdjepa.data import store
from tdjepa.data.card import share, statistics
from tdjepa.envs.base import Demonstrations, Env, make, solved

CHUNK = 2048  # frames rendered and written at a time


def run(cfg: CollectSlice, out: Path) -> dict:
    """Collect `cfg.data.episodes` episodes of at least `cfg.min_length` rows into `out`; returns the card."""
    env = make(cfg.env)
    demos = env.demonstrations(cfg)
    with publish(out, alone=True) as temporary:
        write(temporary, env, demos, cfg.data.image_size, cfg.storage)
    facts = {"env": cfg.env, "image_size": cfg.data.image_size, "storage": cfg.storage, "environment": demos.facts}
    facts |= {"success_criterion": env.success_text, "renderer_difference": env.renderer_difference}
    facts |= {"success_share": share(demos.reached), "trivial_share": share(trivial(env, demos, cfg.goal_offset))}
    return write_card(out, "collect", cfg.model_dump(mode="json"), **facts, **statistics(demos.length, demos.action))


def write(path: Path, env: Env, demos: Demonstrations, size: int, storage: str = "plain") -> None:
    """The episodes file: states and actions as they are, frames rendered from the states."""
    length, rows = demos.length, len(demos.state)
    state, action = (demos.state.shape[1:], demos.state.dtype), (demos.action.shape[1:], demos.action.dtype)
    columns = {"pixels": ((size, size, 3), "u1"), "action": action, "state": state}
    columns |= {"proprio": state, "goal_state": state}  # the library's names
    if demos.kind is not None:
        names = {name: number for number, name in enumerate(sorted(set(demos.kind)))}
        columns["kind"] = ((), h5py.enum_dtype(names, "u1"))
    with store.create(path, length, columns, storage) as file, progress(rows, f"collect {env.name}", "frames") as bar:
        file["action"][:] = demos.action
        file["state"][:] = file["proprio"][:] = demos.state
        file["goal_state"][:] = np.repeat(demos.goal, length, axis=0)
        if demos.kind is not None:
            file["kind"][:] = np.repeat([names[kind] for kind in demos.kind], length)
        for i in range(0, rows, CHUNK):
            env.restore(demos.state[i : i + CHUNK])
            frames = env.render(size)
            store.put(file, i, frames)
            bar.update(len(frames))


def trivial(env: Env, demos: Demonstrations, offset: int) -> np.ndarray:
    """For every pair of rows `offset` steps apart in one episode: is the goal already reached at the start? (pairs,)"""
    episode = np.repeat(np.arange(len(demos.length)), demos.length)
    first = np.nonzero(episode[offset:] == episode[:-offset])[0]
    return solved(env, demos.state[first], demos.state[first + offset])
