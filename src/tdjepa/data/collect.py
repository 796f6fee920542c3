"""`tdjepa collect`: demonstrations of one environment, seeded per episode, as one episodes file with its card.

tdjepa collect --env two_room --scale desk
"""

from pathlib import Path

import numpy as np

from tdjepa.artefacts import publish, sweep, write_card
from tdjepa.data import card, store
from tdjepa.envs import two_room
from tdjepa.params import CollectSlice
from tdjepa.progress import progress
from tdjepa.streams import stream

CHUNK = 2048  # frames rendered and written at a time


def run(cfg: CollectSlice, out: Path, goal_offset: int = 25) -> dict:
    """Collect `cfg.data.episodes` episodes of at least `cfg.min_length` rows into `out`; returns the card."""
    states, actions, lengths, goals = demonstrations(cfg)
    size, rows = cfg.data.image_size, int(lengths.sum())
    columns = {
        "pixels": ((size, size, 3), "u1"),
        "action": ((2,), "f4"),
        "state": ((2,), "f4"),
        "proprio": ((2,), "f4"),  # the library's names for the same thing
        "goal_state": ((2,), "f4"),
        "episode_idx": ((), "i4"),
        "step_idx": ((), "i4"),
    }
    render = two_room.Renderer.of(size)
    sweep(out)
    with publish(out) as temporary, store.create(temporary, lengths, columns) as file:
        file["action"][:] = actions
        file["state"][:] = file["proprio"][:] = states
        file["goal_state"][:] = np.repeat(goals, lengths, axis=0)
        file["episode_idx"][:] = np.repeat(np.arange(len(lengths)), lengths)
        file["step_idx"][:] = np.concatenate([np.arange(n) for n in lengths])
        with progress(rows, f"collect {cfg.env}", "frames") as bar:
            for i in range(0, rows, CHUNK):
                frames = render(states[i : i + CHUNK])
                file["pixels"][i : i + CHUNK] = frames
                bar.update(len(frames))
    ends = np.cumsum(lengths)
    facts = card.statistics(
        lengths,
        actions,
        success=two_room.reached(states[ends - 1], goals),
        trivial=_trivial(states, lengths, goal_offset),
    )
    return write_card(
        out,
        "collect",
        cfg.model_dump(mode="json"),
        env=cfg.env,
        image_size=size,
        success_criterion=two_room.TwoRoom.success_text,
        renderer_difference=RENDERER_DIFFERENCE,
        **facts,
    )


# Absolute difference to the library's own frames (224 px, resized by PIL as its World does), in grey levels of 255;
# tests/test_two_room.py measures it again at every run.
RENDERER_DIFFERENCE = {"mean": 0.06, "max": 2}


def demonstrations(cfg: CollectSlice):
    """Expert episodes, one random stream each; too short ones are dropped and replaced by the next stream.

    -> states (rows, 2), actions (rows, 2) with NaN on the last row of an episode, lengths (E,) in rows, goals (E, 2)
    """
    kept, number = [], 0
    while len(kept) < cfg.data.episodes:
        batch = range(number, number + 512)
        number = batch.stop
        rngs = [stream(cfg.seed, "collect", cfg.env, k) for k in batch]
        states, actions, steps, goals = two_room.demonstrate(rngs, cfg.data.max_steps, cfg.data.action_noise)
        kept += [
            (
                states[k, : steps[k] + 1],
                np.vstack([actions[k, : steps[k]], np.full((1, 2), np.nan, np.float32)]),
                goals[k],
            )
            for k in range(len(rngs))
            if steps[k] + 1 >= cfg.min_length
        ]
    states, actions, goals = zip(*kept[: cfg.data.episodes], strict=True)
    return np.concatenate(states), np.concatenate(actions), np.array([len(s) for s in states]), np.stack(goals)


def _trivial(states, lengths, offset):
    """For every pair of rows `offset` steps apart in one episode: is the goal already reached at the start?"""
    episode = np.repeat(np.arange(len(lengths)), lengths)
    same = episode[offset:] == episode[:-offset]
    return two_room.reached(states[:-offset], states[offset:])[same]
