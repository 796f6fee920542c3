"""`tdjepa sheet`: a contact sheet of a data set, because statistics do not show a camera that looks the wrong way.

tdjepa sheet --env cube --scale desk
"""

from pathlib import Path

import numpy as np

from tdjepa.base.artefacts import publish
from tdjepa.data.store import Store


def run(episodes: Path, out: Path | None = None, rows: int = 6, columns: int = 10) -> dict:
    """`rows` episodes spread over the file, `columns` frames spread over each, as one PNG."""
    from PIL import Image

    out = out or episodes.with_name("sheet.png")
    with publish(out) as temporary:
        Image.fromarray(sheet(Store(episodes), rows, columns)).save(temporary, format="png")
    return {"file": out}


def sheet(data: Store, rows: int, columns: int, gap: int = 2) -> np.ndarray:
    """-> (height, width, 3) uint8, frames on a grey ground with a gap between them"""
    chosen = np.linspace(0, data.episodes - 1, min(rows, data.episodes)).astype(int)
    steps = np.linspace(0, data.length[chosen] - 1, columns).astype(int)  # (columns, rows)
    frames = [data.pixels[data.row(np.full(columns, e), of_row)] for e, of_row in zip(chosen, steps.T, strict=True)]
    cells = np.pad(frames, ((0, 0), (0, 0), (gap, 0), (gap, 0), (0, 0)), constant_values=128)
    picture = np.vstack([np.hstack(row) for row in cells])
    return np.pad(picture, ((0, gap), (0, gap), (0, 0)), constant_values=128)
