"""`tdjepa fetch`: the released demonstrations of one environment, checked, and written in this project's layout.

tdjepa fetch --env two_room --scale paper

The archive is kept beside the data, so another image size needs no second download; what was unpacked is removed.
"""

import shutil
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import h5py
import numpy as np

from tdjepa.base.artefacts import lock, publish, write_card
from tdjepa.base.errors import UserError
from tdjepa.config.records.released import RELEASED, Source
from tdjepa.config.slices import FetchSlice
from tdjepa.data import archive
from tdjepa.data.card import share, statistics
from tdjepa.data.convert import Released, convert, open_released
from tdjepa.data.download import PATIENT, Failed, Patience, check, download, urls
from tdjepa.data.store import Store
from tdjepa.envs.base import make, solved

CACHE = Path("data", "released")  # one archive serves all scales


def cache_of(env: str, source: Source) -> Path:
    """Where the archive is kept. One with another checksum than the released one has a folder of its own beside it."""
    return CACHE if source.sha256 in (None, RELEASED[env].sha256) else CACHE / source.sha256[:16]


def run(
    cfg: FetchSlice, out: Path, *, mirrors: tuple[str, ...], trust_first_use=False, cache=None, patience=PATIENT
) -> dict:
    """Fetch the released file from the first of the mirrors that has it, and convert it to `out`; returns the card."""
    source, cache = cfg.source, cache or cache_of(cfg.env, cfg.source)
    if source.sha256 is None and not trust_first_use:
        why = "its sha256 is not known, so nobody can tell whether a download is right"
        advice = (
            "give it in the parameters, or pass --trust-first-use to take what comes and record its sha256 in the card"
        )
        raise UserError(f"{source.file}: {why}; {advice}")
    addresses = urls(source, mirrors)
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f".{Path(source.file).name}.lock", "w") as alone:  # two would append to the same part
        lock(alone, f"{cache}: another `tdjepa fetch` is fetching the same file; wait for it")
        packed, digest = obtain(cfg.env, source, addresses, cache, patience)
        unpacked = cache / f"unpacked-{digest[:16]}"
        found = released_in(hdf5_of(packed, unpacked, source, cache), cfg, unpacked)
        with publish(out, alone=True) as temporary:
            action = convert(found, temporary, cfg.image_size, cfg.episodes, cfg.storage)
        # without the mirrors: the same file from elsewhere is the same data, and its card is the same
        params = cfg.model_dump(mode="json", exclude={"env": True, "goal_offset": True, "source": {"mirrors"}})
        words = {ours: [part.word.format(name) for name, part in parts] for ours, parts in found.columns.items()}
        facts = {"released": {"sha256": digest, "bytes": packed.stat().st_size}, "columns": words}
        facts |= {"checksum": "known before" if source.sha256 else "trusted at first use"}
        facts |= {"env": cfg.env, "storage": cfg.storage, **statistics(found.lengths[: cfg.episodes], action)}
        made = write_card(out, "fetch", params, **facts, **measured(cfg.env, out, cfg.goal_offset))
        shutil.rmtree(unpacked, ignore_errors=True)
    return made


def obtain(env: str, source: Source, addresses: list[str], cache: Path, patience: Patience) -> tuple[Path, str]:
    """The verified archive and its sha256, from the cache or the first address that gives it."""
    kept = cache / Path(source.file).name
    if kept.exists():
        try:
            return kept, check(kept, source)
        except Failed as error:
            raise UserError(f"{kept}: {error}; delete the file, or mend the checksum if that is wrong") from None
    failures = []
    for url in addresses:
        try:
            if urlsplit(url).scheme == "file":  # a mirror on this machine is read where it lies
                path = Path(url2pathname(urlsplit(url).path))
                if not path.is_file():
                    raise Failed("no such file")
                return path, check(path, source)
            return kept, download(url, kept, source, patience)
        except Failed as error:
            failures.append(f"{url}: {error}")
    instead = f"`tdjepa collect --env {env}` generates data instead"
    instead += f" (in the workflow: collect.source.{env}: generated in params.yaml)"
    later = "the same `fetch` later goes on where this one stopped"
    raise UserError(f"{source.file} cannot be fetched ({'; '.join(failures)}); {instead}, and {later}")


def hdf5_of(packed: Path, unpacked: Path, source: Source, cache: Path) -> Path:
    """The one HDF5 file in the archive, unpacked if it has not been."""
    if not packed.name.endswith(".zst"):
        return packed
    if not unpacked.exists():
        try:
            archive.unpack(packed, unpacked, source.limits)
        except archive.Refused:
            if source.sha256 is None and packed.parent == cache:
                packed.unlink()  # what does not open was never right, so the next first use must not find it
            raise
    files = [path for path in sorted(unpacked.rglob("*")) if path.suffix in (".h5", ".hdf5") and path.name[:2] != "._"]
    if len(files) != 1:
        shutil.rmtree(unpacked)
        names = ", ".join(path.name for path in files) or "none"
        raise UserError(f"{packed}: one HDF5 file is expected in it, found: {names}")
    return files[0]


def released_in(path: Path, cfg: FetchSlice, unpacked: Path) -> Released:
    """What the unpacked file holds, if it is what was asked for; what cannot be used does not stay on the disk."""
    try:
        found = open_released(path, cfg.env)
        have = {"episodes": len(found.lengths), "rows": int(found.lengths.sum())}
        for what, expected in (("episodes", cfg.source.episodes), ("rows", cfg.source.rows)):
            if expected not in (None, have[what]):
                raise UserError(f"{path}: has {have[what]} {what}, the released file of {cfg.env} has {expected}")
        if have["episodes"] < cfg.episodes:
            asked = f"collect.{cfg.env}.episodes asks for {cfg.episodes}"
            raise UserError(f"{path}: has {have['episodes']} episodes, {asked}; ask for fewer or fetch another file")
    except UserError:
        shutil.rmtree(unpacked, ignore_errors=True)
        raise
    return found


def measured(name: str, path: Path, goal_offset: int, most: int = 5000) -> dict:
    """What only the simulator knows, on evenly spread rows: is the file the world that our environment simulates?

    The data is whole without it, so a machine without a simulator or graphics gets the reason instead of the numbers.
    """
    facts = dict.fromkeys(("success_share", "trivial_share", "success_criterion", "renderer_difference"))
    data = Store(path)
    facts["image_size"] = data.image_size
    try:
        env = make(name)
        facts["success_criterion"] = env.success_text
        rows = np.unique(np.linspace(0, len(data.state) - 1, 64).astype(int))
        env.restore(data.state[rows])
        apart = np.abs(env.render(data.image_size).astype(np.int16) - data.pixels[rows])
        facts["renderer_difference"] = {"mean": round(float(apart.mean()), 3), "max": int(apart.max())}
        first = [o + np.arange(max(0, n - goal_offset)) for o, n in zip(data.offset, data.length, strict=True)]
        first = np.concatenate(first)
        if len(first):
            first = first[np.unique(np.linspace(0, len(first) - 1, most).astype(int))]
            facts["trivial_share"] = share(solved(env, data.state[first], data.state[first + goal_offset]))
        ends = data.offset + data.length - 1
        with h5py.File(path, "r") as file:
            if "goal_state" in file:
                facts["success_share"] = share(solved(env, data.state[ends], file["goal_state"][:][ends]))
    except Exception as error:  # anything that a simulator or a graphics driver can throw
        facts["simulator"] = f"not asked: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return facts
