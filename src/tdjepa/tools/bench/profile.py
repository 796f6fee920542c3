"""Where the time of a training step goes, for every method without a restart: CPU milliseconds, one thread.

    tdjepa bench profile [--size paper] [--docs docs/methods.md]

The methods take turns, step by step, and the median of several rounds counts. `gflop` are operations of matrix products
and attention; `of_tdjepa` is a step's time as a multiple of TD-JEPA's, `operations_of_tdjepa` the same in operations:
train.step_factor of lewm_compute is one over that of LeWM.
"""

import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import torch

from tdjepa.base.allocator import keep_memory
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.slices import train_slice
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.model.normalisation import set_normalisation
from tdjepa.model.world_model import build
from tdjepa.objective import methods
from tdjepa.report.labels import method_label
from tdjepa.report.table import Table
from tdjepa.steps.health import latent_health
from tdjepa.steps.train import adamw
from tdjepa.tools.bench import data
from tdjepa.tools.bench.timing import operations
from tdjepa.tools.bench.train import SIZES

ROUNDS = {"desk": 15, "paper": 2}
PARTS = ("read", "encode", "terms", "backward", "optimiser", "health")


def run(size: str = "desk", file: Path = Path("params.yaml")) -> dict:
    if size not in SIZES:
        raise UserError(f"--size {size}: must be one of {', '.join(SIZES)}")
    keep_memory()
    torch.set_num_threads(1)
    episodes, longest, batch, _ = SIZES[size]
    p = load(file, size)
    chosen = [
        m
        for m in p.methods_run
        if not (p.methods[m].restart or p.methods[m].backbone) and p.methods[m].trains_on == "train"
    ]
    image_size, widest = p.collect.two_room.image_size, max(p.methods[m].window for m in chosen)
    with tempfile.TemporaryDirectory() as folder:
        path = data.two_room(Path(folder, "episodes.h5"), episodes, widest * p.mine.frameskip, image_size, longest)
        store = Store(path)
        sides = {m: Side(train_slice(p, "two_room", m, p.train_seeds[0]), store, batch) for m in chosen}
        flop = {m: operations(lambda side=side: side.step(0)) / 1e9 for m, side in sides.items()}
        for side in sides.values():
            side.spent.clear()
        for k in range(1, ROUNDS[size] + 1):
            for side in sides.values():
                side.step(k)
    found = {m: {part: median(times) for part, times in side.spent.items()} for m, side in sides.items()}
    total = {m: sum(found[m][part] for part in PARTS) for m in chosen}
    for m in chosen:
        found[m] = {part: round(1000 * seconds, 2) for part, seconds in found[m].items()}
        found[m] |= {"step": round(1000 * total[m], 1), "gflop": round(flop[m], 3)}
        found[m] |= {"of_tdjepa": round(total[m] / total["tdjepa"], 3)}
        found[m]["operations_of_tdjepa"] = round(flop[m] / flop["tdjepa"], 3)
    return {"bench": "profile", "size": size, "batch": batch, "unit": "ms", "methods": found}


class Side:
    """One method's model, optimiser and clock."""

    def __init__(self, cfg, store: Store, batch: int):
        self.cfg, self.store, self.batch, self.spent = cfg, store, batch, defaultdict(list)
        shape = (cfg.method.window, cfg.frameskip, cfg.train.window_ends)
        self.first = windows.starts(store.length, store.offset, np.arange(store.episodes), *shape)
        block = cfg.frameskip * store.action.shape[1]
        self.model = build(cfg.model, cfg.method.head, store.image_size, block, cfg.seed).train()
        set_normalisation(self.model, cfg, store, np.arange(store.episodes))
        self.optimiser, self.now = adamw(self.model.parameters(), cfg.train), {}

    @contextmanager
    def clock(self, part: str):
        begin = time.process_time()
        yield
        self.now[part] = self.now.get(part, 0.0) + time.process_time() - begin

    def step(self, k: int) -> None:
        """What `tdjepa train` does in a step, with the time of each part."""
        cfg, model = self.cfg, self.model
        self.now = {}
        with self.clock("read"):
            chosen = np.random.default_rng(k).choice(self.first, self.batch)
            parts = windows.gather(self.store.pixels, self.store.action, chosen, cfg.method.window, cfg.frameskip)
            frames, blocks = map(torch.from_numpy, parts)
        with self.timed_terms(), self.clock("terms"):
            loss, _, z = methods.objective(model, cfg.method, frames, blocks, cfg.seed, k, 1)
        self.now["terms"] -= self.now["encode"]
        with self.clock("backward"):
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
        with self.clock("optimiser"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.train.clip)
            self.optimiser.step()
        with self.clock("health"):
            latent_health(z)
        for part, seconds in self.now.items():
            self.spent[part].append(seconds)

    @contextmanager
    def timed_terms(self):
        """The encoder and every term of the objective under the clock; one-step predictions go to the first that needs them."""
        encode, terms = self.model.encode, dict(methods.TERMS)

        def under_clock(part, function):
            def timed(*args):
                with self.clock(part):
                    return function(*args)

            return timed

        self.model.encode = under_clock("encode", encode)
        methods.TERMS.update({name: under_clock(name, term) for name, term in terms.items()})
        try:
            yield
        finally:
            del self.model.encode  # the class's own again
            methods.TERMS.update(terms)


def table(found: dict, p) -> Table:
    """One line per method: its step, what of it goes where, and the multiples of TD-JEPA's."""
    body = []
    for m, ms in found["methods"].items():
        terms = ", ".join(f"{name} {ms[name]:.1f}" for name in methods.TERMS if name in ms)
        parts = [f"{ms[part]:.1f}" for part in ("read", "encode", "backward", "optimiser")]
        ratios = [f"{ms['of_tdjepa']:.2f}", f"{ms['operations_of_tdjepa']:.2f}"]
        body.append([method_label(p, m), f"{ms['step']:.1f}", *ratios, *parts, terms])
    head = ["Method", "Step, ms", "× TD-JEPA's", "in operations", "read", "encode", "backward", "optimiser", "terms"]
    caption = (
        f"CPU milliseconds of one optimiser step of {found['batch']} windows, {found['size']} size, one thread, by part"
    )
    return Table("profile", f"{caption} (backward of all together).", head, body)
