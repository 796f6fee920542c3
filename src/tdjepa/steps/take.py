"""`tdjepa take`: demonstrations of a user's own, checked, and written in this project's layout.

tdjepa take --env push_t --scale desk

The file is in our layout (whole states) or in that of the released files; docs/own_data.md has the columns.
"""

from pathlib import Path

import h5py
import numpy as np

from tdjepa.base.artefacts import publish, sha256, write_card
from tdjepa.base.errors import UserError
from tdjepa.config.slices import TakeSlice
from tdjepa.data.card import statistics
from tdjepa.data.convert import COLUMNS, WHOLE, Released, contents, convert, open_released, read
from tdjepa.data.store import own_column
from tdjepa.steps.fetch import measured


def run(cfg: TakeSlice, out: Path, file: Path) -> dict:
    """Check the first `cfg.episodes` of `file` and convert them to `out`; returns the card."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; collect.file.{cfg.env}.path in params.yaml names it")
    if out.resolve() == file.resolve():
        raise UserError(f"--out {out}: is the file that is read; name another one")
    found = opened(file, cfg.env)
    refuse(found, cfg)
    digest = sha256(file)
    if digest != cfg.sha256:
        key = f"collect.file.{cfg.env}.sha256"
        raise UserError(
            f"{file}: its sha256 is {digest}, {key} says {cfg.sha256}; if this is the file, write that there"
        )
    with publish(out, alone=True) as temporary:
        action = convert(found, temporary, cfg.image_size, cfg.episodes, cfg.storage)
    words = {ours: [part.word.format(name) for name, part in parts] for ours, parts in found.columns.items()}
    facts = {"env": cfg.env, "storage": cfg.storage, "columns": words}
    facts |= statistics(found.lengths[: cfg.episodes], action)
    params = cfg.model_dump(mode="json", exclude={"env", "goal_offset"})
    return write_card(out, "take", params, **facts, **measured(cfg.env, out, cfg.goal_offset))


def opened(path: Path, env: str) -> Released:
    """The columns of the file: those of our layout if its states are whole, else those of the released layout."""
    width = WHOLE[env]["state"].width
    try:
        with h5py.File(path, "r") as file:
            if "action" not in file:
                raise UserError(f"{path}: no column action; {contents(file)}")
            state = own_column(file, "state", path) if "state" in file else None
            whole = state is not None and state.ndim == 2 and state.shape[1] == width
    except OSError as error:
        raise UserError(f"{path}: cannot be read as HDF5 ({' '.join(str(error).split())})") from None
    try:
        return open_released(path, env, WHOLE if whole else COLUMNS)
    except UserError as error:
        hint = f"; or give whole states: a column state of {width} numbers per row (docs/own_data.md)"
        raise UserError(f"{error}{'' if whole else hint}") from None


def refuse(found: Released, cfg: TakeSlice) -> None:
    """What could be converted but not learned from."""
    path, lengths, side = found.path, found.lengths[: cfg.episodes], found.frame[0]
    key = f"collect.{cfg.env}"
    if len(lengths) < cfg.episodes:
        raise UserError(f"{path}: has {len(lengths)} episodes, {key}.episodes asks for {cfg.episodes}; ask for fewer")
    if lengths.min() < cfg.min_length:
        short = f"episode {lengths.argmin()} has {lengths.min()} rows"
        raise UserError(f"{path}: {short}, collect.min_length asks for {cfg.min_length}; leave such episodes out")
    if min(found.frame[:2]) < cfg.image_size:
        raise UserError(f"{path}: frames of {side} px, {key}.image_size asks for {cfg.image_size}; ask for less")
    with h5py.File(path, "r") as file:
        for name, parts in found.columns.items():
            column = read(file, parts, slice(0, int(lengths.sum())))
            if column.dtype.kind != "f":
                raise UserError(f"{path}: {name} is {column.dtype}, expected floating-point numbers")
            if name == "state" and not np.isfinite(column).all():
                row = int((~np.isfinite(column)).any(1).argmax())
                raise UserError(f"{path}: state of row {row} is not finite; every state must be restorable")
