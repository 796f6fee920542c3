"""Training windows: T frames, one every `frameskip` environment steps, and the T-1 action blocks between them."""

import numpy as np

from tdjepa.base.errors import UserError


def starts(lengths: np.ndarray, offsets: np.ndarray, episodes: np.ndarray, window: int, frameskip: int) -> np.ndarray:
    """First rows of all windows that lie inside one of the episodes; (windows,)"""
    span = (window - 1) * frameskip  # rows from the first to the last frame
    episodes = np.asarray(episodes)
    fitting = episodes[lengths[episodes] > span]
    if not len(fitting):
        longest = int(lengths[episodes].max()) if len(episodes) else 0
        found = f"a window of {window} frames spans {span + 1} rows, but the longest training episode has {longest}"
        raise UserError(f"{found}; collect longer episodes or choose a shorter window")
    return np.concatenate([offsets[e] + np.arange(lengths[e] - span) for e in fitting])


def gather(pixels: np.ndarray, action: np.ndarray, first: np.ndarray, window: int, frameskip: int):
    """Frames and action blocks of the windows that begin at these rows.
    -> frames (B, T, H, W, 3) uint8, actions (B, T-1, frameskip * A)"""
    frames = pixels[first[:, None] + np.arange(window) * frameskip]
    blocks = action[first[:, None] + np.arange((window - 1) * frameskip)]  # (B, (T-1) * frameskip, A)
    return frames, blocks.reshape(len(first), window - 1, -1)
