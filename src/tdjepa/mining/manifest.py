"""Locked manifests: which (episode, start) pairs are evaluated, drawn once and known by their hash."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError, shown
from tdjepa.config.records.data import Mine


def valid_rows(lengths: np.ndarray, episodes: np.ndarray, goal_offset: int) -> np.ndarray:
    """All (episode, start) whose goal, `goal_offset` steps later, lies in the same episode; (rows, 2), by episode."""
    starts = [np.arange(max(0, lengths[e] - goal_offset)) for e in episodes]
    return np.stack([np.repeat(episodes, [len(s) for s in starts]), np.concatenate(starts)], 1).astype(np.int64)


def draw(candidates: np.ndarray, n: int, seed: int) -> np.ndarray:
    """n of the candidates without replacement, in drawing order (so the first k are a fair sample of k); (n, 2)"""
    if len(candidates) < n:
        found = f"manifest: {n} goals are asked for, but only {len(candidates)} (episode, start) pairs are left"
        raise UserError(f"{found}; collect more episodes or lower mine.validation_goals / mine.test_goals")
    return candidates[np.random.default_rng(seed).choice(len(candidates), n, replace=False)]


def draw_all(mine: Mine, parts: dict[str, list[int]], candidates: Callable[[list[int]], np.ndarray]) -> dict:
    """The pairs of each manifest, from what `candidates` gives for some episodes: each from its own part, `curves` from that of
    test; or, as published, all from all episodes, and `curves` never at the last row."""
    first, second = mine.validation_goals, mine.test_goals
    if mine.manifest_draw == "by_part":
        of_test = candidates(parts["test"])
        validation = draw(candidates(parts["validation"]), first, mine.seed)
        curves = draw(of_test, first, mine.curve_seed)
        return {"validation": validation, "test": draw(of_test, second, mine.seed), "curves": curves}
    of_all = candidates(sorted(episode for part in parts.values() for episode in part))
    drawn = draw(of_all, first + second, mine.seed)
    return {"validation": drawn[:first], "test": drawn[first:], "curves": draw(of_all[:-1], first, mine.curve_seed)}


def lines_sha256(entries: np.ndarray) -> str:
    """sha256 over the sorted lines "episode,start\\n", as the published manifests are hashed."""
    lines = "".join(f"{e},{s}\n" for e, s in sorted(map(tuple, np.asarray(entries).tolist())))
    return hashlib.sha256(lines.encode()).hexdigest()


def to_json(env: str, part: str, seed: int, goal_offset: int, entries: np.ndarray, trivial: np.ndarray, data: str):
    """A manifest as it is written; `read` gives it back."""
    locked = {"entries": entries.tolist(), "trivial": trivial.tolist(), "sha256_of_lines": lines_sha256(entries)}
    return {"env": env, "part": part, "seed": seed, "goal_offset": goal_offset, **locked, "data_sha256": data}


def read(path: str | Path, env: str, lengths: np.ndarray, goal_offset: int, data_sha256: str) -> dict:
    """A manifest from its file: hash checked, drawn from this very data, every entry inside its episode."""
    manifest = read_json(path)
    if not isinstance(manifest, dict):
        raise UserError(f"{path}: not a manifest: a mapping is expected, found {type(manifest).__name__}")
    manifest = manifest.get(str(goal_offset), manifest)  # far.json has one for each offset
    if missing := {"env", "goal_offset", "entries", "trivial", "sha256_of_lines", "data_sha256"} - set(manifest):
        raise UserError(f"{path}: not a manifest: {', '.join(sorted(missing))} missing")
    if manifest["env"] != env or manifest["goal_offset"] != goal_offset:
        found = f"{shown(manifest['env'])} with goal offset {shown(manifest['goal_offset'])}"
        raise UserError(f"{path}: is for {found}, expected {env} with {goal_offset}; run `tdjepa mine` again")
    entries, trivial = _entries(path, manifest["entries"]), manifest["trivial"]
    if not isinstance(trivial, list) or len(trivial) != len(entries) or {type(t) for t in trivial} - {bool}:
        raise UserError(f"{path}: trivial: {len(entries)} times true or false is expected, one for each entry")
    if lines_sha256(entries) != manifest["sha256_of_lines"]:
        raise UserError(f"{path}: the entries are not the locked ones (their hash differs); run `tdjepa mine` again")
    if manifest["data_sha256"] != data_sha256:
        raise UserError(f"{path}: was drawn from other data (its data_sha256 differs); run `tdjepa mine` again")
    for episode, start in entries:
        if not 0 <= episode < len(lengths):
            raise UserError(f"{path}: episode {episode} does not exist (the data has {len(lengths)})")
        if not 0 <= start < lengths[episode] - goal_offset:
            pair = f"start {start} of episode {episode} with the goal {goal_offset} steps later"
            raise UserError(f"{path}: {pair} points past the episode's {lengths[episode]} rows")
    return {**manifest, "entries": entries, "trivial": np.asarray(trivial, bool)}


def _entries(path: str | Path, listed) -> np.ndarray:
    """The pairs of a manifest as numbers; (n, 2)"""
    for entry in listed if isinstance(listed, list) else [listed]:
        fits = isinstance(entry, list) and len(entry) == 2 and {type(n) for n in entry} == {int}
        if not fits or max(map(abs, entry)) >= 2**31:
            raise UserError(f"{path}: entries: [episode, start] is expected, found {shown(entry)}")
    return np.asarray(listed, dtype=np.int64).reshape(-1, 2)
