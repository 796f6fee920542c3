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
    cell = data.image_size + gap
    picture = np.full((len(chosen) * cell + gap, columns * cell + gap, 3), 128, np.uint8)
    for y, episode in enumerate(chosen):
        steps = np.linspace(0, data.length[episode] - 1, columns).astype(int)
        for x, frame in enumerate(data.pixels[data.row(np.full(columns, episode), steps)]):
            top, left = y * cell + gap, x * cell + gap
            picture[top : top + data.image_size, left : left + data.image_size] = frame
    return picture
