"""`tdjepa mine`: split, locked manifests and held-out pairs of one data set.

tdjepa mine --env two_room --scale desk
"""

from pathlib import Path

import numpy as np

from tdjepa.base.artefacts import sha256_of_input, write_json, write_parquet
from tdjepa.base.streams import stream
from tdjepa.config.slices import MineSlice
from tdjepa.data.store import Store
from tdjepa.envs.base import make, solved
from tdjepa.mining import demands, manifest, pairs
from tdjepa.mining.split import split


def run(cfg: MineSlice, episodes: Path, out: Path) -> dict:
    """Write split.json, the manifests and pairs.parquet into `out`; returns a summary for the terminal."""
    mine, data = cfg.mine, Store(episodes)
    parts = split(data.episodes, mine.split.model_dump(), mine.seed)
    write_json(out / "split.json", parts)
    summary = {name: f"{len(part)} episodes" for name, part in parts.items()}
    env = make(cfg.env)

    def candidates(of: list[int]) -> np.ndarray:
        rows = manifest.valid_rows(data.length, np.asarray(of), mine.goal_offset)
        return rows[~solved_at_start(env, data, rows, mine.goal_offset)] if mine.exclude_trivial else rows

    for name, entries in manifest.draw_all(mine, parts, candidates).items():
        trivial = solved_at_start(env, data, entries, mine.goal_offset)
        kinds = None if data.kind is None else data.kind[entries[:, 0]]
        asked = demands.summary(env.demands(*ends(data, entries, mine.goal_offset)), kinds)
        about = (cfg.env, name, mine.curve_seed if name == "curves" else mine.seed, mine.goal_offset)
        locked = manifest.to_json(*about, entries, trivial, sha256_of_input(episodes))
        write_json(out / f"{name}.json", {**locked, "demands": asked})
        summary[f"{name} manifest"] = f"{len(entries)} goals, {trivial.mean():.0%} of them solved at the start"
        summary |= {f"{name}, {kind}": demands.said(of_kind) for kind, of_kind in asked.items() if of_kind}
    far = {}
    for offset in mine.far_offsets:
        rows = manifest.valid_rows(data.length, np.asarray(parts["test"]), offset)
        entries = manifest.draw(rows, min(len(rows), mine.test_goals), mine.seed)
        trivial = solved_at_start(env, data, entries, offset)
        locked = manifest.to_json(cfg.env, "far", mine.seed, offset, entries, trivial, sha256_of_input(episodes))
        far[str(offset)] = {**locked, "drawn_from": len(np.unique(rows[:, 0]))}
        summary[f"goals {offset} steps away"] = f"{len(entries)}, from {far[str(offset)]['drawn_from']} episodes"
    write_json(out / "far.json", far)
    drawn = (mine.pairs, mine.goal_offset, mine.near_end, mine.far_end, stream(mine.seed, "pairs"), mine.pair_draw)
    table = pairs.draw(data.length, np.asarray(parts["test"]), *drawn)
    write_parquet(out / "pairs.parquet", table)
    shares = f"{table.near.mean():.0%} near the end, {table.far.mean():.0%} far"
    return {**summary, "pairs": f"{len(table)} held-out pairs, {shares}"}


def solved_at_start(env, data: Store, entries: np.ndarray, goal_offset: int) -> np.ndarray:
    """Whether the goal of each (episode, start) is already reached there; (n,) bool"""
    return solved(env, *ends(data, entries, goal_offset))


def ends(data: Store, entries: np.ndarray, goal_offset: int) -> tuple[np.ndarray, np.ndarray]:
    """The states at the starts of the entries (episode, start) and at their goals; (n, S), (n, S)"""
    episode, start = entries.T
    return data.state[data.row(episode, start)], data.state[data.row(episode, start + goal_offset)]
