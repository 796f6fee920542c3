"""Training windows: T frames, one every `frameskip` environment steps, and the T-1 action blocks between them."""

import numpy as np

from tdjepa.base.errors import UserError


def span(window: int, frameskip: int, ends: str) -> int:
    """Rows of an episode that a window takes.

    The reference asks for the action block after the last frame, although nothing uses it (`after_last_block`); without it
    (`at_last_frame`) an episode has a few windows more.
    """
    return window * frameskip if ends == "after_last_block" else (window - 1) * frameskip + 1


def starts(lengths: np.ndarray, offsets: np.ndarray, episodes, window: int, frameskip: int, ends: str) -> np.ndarray:
    """First rows of all windows that lie inside one of the episodes; (windows,)"""
    rows, episodes = span(window, frameskip, ends), np.asarray(episodes)
    fitting = episodes[lengths[episodes] >= rows]
    if not len(fitting):
        longest = int(lengths[episodes].max()) if len(episodes) else 0
        found = f"a window of {window} frames spans {rows} rows, but the longest training episode has {longest}"
        raise UserError(f"{found}; collect longer episodes or choose a shorter window")
    return np.concatenate([offsets[e] + np.arange(lengths[e] - rows + 1) for e in fitting])


def nine_tenths(first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The windows that the reference trains on; the rest is its validation. Neighbours overlap, so nothing is held out by it."""
    return np.sort(rng.permutation(first)[: round(0.9 * len(first))])


def families(episode: np.ndarray, siblings: int, rng: np.random.Generator) -> np.ndarray:
    """One shuffled pass over the windows in which `siblings` of one episode stand side by side; those that are left over
    when an episode is shared out wait for another pass. episode (windows,) -> window numbers (at most windows,)"""
    order = rng.permutation(len(episode))
    if siblings == 1:
        return order
    order = order[np.argsort(episode[order], kind="stable")]  # an episode's windows side by side, shuffled
    _, first, count = np.unique(episode[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, count)
    whole = order[place < np.repeat(count // siblings * siblings, count)]
    return rng.permutation(whole.reshape(-1, siblings)).reshape(-1)


def gather(pixels: np.ndarray, action: np.ndarray, first: np.ndarray, window: int, frameskip: int):
    """Frames and action blocks of the windows that begin at these rows.
    -> frames (B, T, H, W, 3) uint8, actions (B, T-1, frameskip * A)"""
    frames = pixels[first[:, None] + np.arange(window) * frameskip]
    blocks = action[first[:, None] + np.arange((window - 1) * frameskip)]  # (B, (T-1) * frameskip, A)
    return frames, blocks.reshape(len(first), window - 1, -1)
