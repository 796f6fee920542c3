"""The files of every phase of a scale: what a rule writes, what a phase target asks for, what a DVC stage holds.

A big file comes with a small card that holds its sha256. Rules take the big file as `ancient` (its time stamp says nothing)
and the card beside it, whose checksum Snakemake compares: it does not look into files of more than a megabyte.
"""

from collections.abc import Iterable
from itertools import product
from pathlib import PurePath

from snakemake.io import ancient

from tdjepa.base.artefacts import card_path
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.runs import diagnosed_epochs
from tdjepa.config.slices import evaluate_slice
from tdjepa.steps import paths as layout

PHASES = ("collect", "mine", "train", "evaluate", "judge", "render", "page", "paper")
MINED = ("split.json", "validation.json", "test.json", "pairs.parquet")
DIAGNOSTICS = ("pairs.parquet", "pairs.card.json", "aliasing.json", "probe.json")
EVIDENCE = ("stats.json", "cells.csv", "metrics.json", "claims.json")
TABLES = (
    *("method_comparison", "main", "literature", "ablations", "navigation", "rank_split", "phases", "geometry"),
    *("contact_gates", "reacher_protocol", "cost_matrix"),  # so far the paper's eleven; then our own
    *("floors", "training_seeds", "three_frames", "split_leak"),
    *("rank_epochs", "disagreement", "probe", "data", "claims"),
)
FIGURES = (
    *("alignment", "pipeline", "cost_matrix", "epoch_curve", "offline", "calibration"),  # the paper's six
    *("training_seeds", "variants", "aliasing", "training"),
)
REPORT = {
    "tables": [f"tables/{name}.{kind}" for name, kind in product(TABLES, ("tex", "md"))],
    "figures": [f"figures/{name}.{kind}" for name, kind in product(FIGURES, ("pdf", "png"))],
    "numbers": ["numbers.tex", "summary.md"],
}


class Files:
    """Paths with the wildcards {env}, {method}, {seed}, as rules want them, and the full lists of a phase."""

    def __init__(self, p: Params):
        self.p, self.scale = p, p.scale
        self.episodes = str(layout.episodes(p.scale, "{env}"))
        self.episodes_card = str(card_path(self.episodes))
        self.rows = str(layout.rows(p.scale, "{env}", "{method}", "{seed}"))
        self.rows_card = str(card_path(self.rows))
        self.sweep = str(layout.sweep(p.scale, "{sweep}", "{env}", "{method}", "{seed}"))
        self.sweep_card = str(card_path(self.sweep))
        self.floors = str(layout.rows(p.scale, "{env}", "floors"))
        self.floors_card = str(card_path(self.floors))
        self.ceiling = str(layout.rows(p.scale, "{env}", "ceiling"))
        self.ceiling_card = str(card_path(self.ceiling))
        self.last_checkpoint = self.checkpoints()[-1]
        self.last_card = self.checkpoint_cards()[-1]

    def envs_from(self, source: str) -> str:
        """The environments with that source of demonstrations, as a pattern; one that matches nothing if there are none."""
        return "|".join(env for env, word in self.p.collect.source.items() if word == source) or "(?!)"

    def log(self, name: str) -> str:
        return str(layout.log(self.scale, name))

    def benchmark(self, name: str) -> str:
        return f"results/{self.scale}/benchmarks/{name}.tsv"

    def times(self, name: str) -> str:
        """Seconds of each plan: they differ from run to run, so they are no result."""
        return f"results/{self.scale}/logs/{name}.times.csv"

    def mined(self, name: str) -> str:
        return str(layout.mined(self.scale, "{env}", name))

    def training(self, name: str) -> str:
        return str(layout.training(self.scale, "{env}", "{method}", "{seed}") / name)

    def checkpoints(self) -> list[str]:
        epochs = range(1, self.p.train.epochs + 1)
        return [str(layout.checkpoint(self.scale, "{env}", "{method}", "{seed}", e)) for e in epochs]

    def checkpoint_cards(self) -> list[str]:
        return [str(card_path(path)) for path in self.checkpoints()]

    def initial(self, env: str, method: str, seed: str) -> list[str]:
        """The checkpoint that a training starts from: none, or that of the method it continues."""
        before = self.p.methods[method].continues
        return [str(layout.checkpoint(self.scale, env, before.method, seed, before.epoch))] if before else []

    def diagnosed(self, paths: list[str]) -> list[str]:
        """Those of a training's checkpoints (or of their cards) whose latents are measured."""
        return [paths[epoch - 1] for epoch in diagnosed_epochs(self.p)]

    def evaluated(self, env: str, method: str, seed: str, sweep: str = "") -> list[int]:
        """The epochs that an evaluation needs."""
        return evaluate_slice(self.p, env, method, int(seed), sweep).epochs

    def evaluated_checkpoints(self, *what: str) -> list:
        return [ancient(self.checkpoints()[epoch - 1]) for epoch in self.evaluated(*what)]

    def evaluated_cards(self, *what: str) -> list[str]:
        return [self.checkpoint_cards()[epoch - 1] for epoch in self.evaluated(*what)]

    def sweeps(self) -> list[tuple[str, str, str, int]]:
        """(sweep, environment, method, training seed) of the other planner settings of the run."""
        return [
            (name, env, method, seed)
            for name, sweep in self.p.evaluate.sweeps.items()
            for env, method, seed in runs.trainings(self.p)
            if env in sweep.envs and method in sweep.methods and seed in self.p.train_seeds[: sweep.train_seeds]
        ]

    def all_sweeps(self, name: str = "") -> list[str]:
        """Of all sweeps, or of the one that is named."""
        return [str(layout.sweep(self.scale, *which)) for which in self.sweeps() if name in ("", which[0])]

    def diagnostic(self, name: str) -> str:
        return str(layout.diagnostic(self.scale, "{env}", "{method}", "{seed}", name))

    def pictures(self) -> list[str]:
        """For who asks: an episode with the deployed cost in each environment, and Two-Room's landscape."""
        who = (self.p.methods_run[0], self.p.train_seeds[0])
        found = [
            layout.picture(self.scale, env, *who, f"{self.p.evaluate.protocol[env].deployed}_{pair}.gif")
            for env in self.p.envs
            for pair in (0, 1, 2)
        ]
        if "two_room" in self.p.envs:
            found += [layout.picture(self.scale, "two_room", *who, f"landscape.{kind}") for kind in ("pdf", "png")]
        return list(map(str, found))

    def picture(self, name: str) -> str:
        return str(layout.picture(self.scale, "{env}", "{method}", "{seed}", name))

    def _each(self, *patterns: str) -> list[str]:
        """The patterns filled in for every training of the scale."""
        return [f.format(env=env, method=m, seed=s) for env, m, s in runs.trainings(self.p) for f in patterns]

    def _diagnosed(self, *names: str) -> list[str]:
        return [
            str(layout.diagnostic(self.scale, *training, name)) for training in runs.diagnosed(self.p) for name in names
        ]

    def _per_env(self, *patterns: str) -> list[str]:
        return [f.format(env=env) for env in self.p.envs for f in patterns]

    def all_ceilings(self) -> list[str]:
        return [self.ceiling.format(env=env) for env in self.p.envs if env in self.p.diagnose.ceiling_pairs]

    def all_rows(self) -> list[str]:
        return self._each(self.rows) + self._per_env(self.floors) + self.all_ceilings() + self.all_sweeps()

    def all_rows_cards(self) -> list[str]:
        return [str(card_path(path)) for path in self.all_rows()]

    def all_pairs(self) -> list[str]:
        return _ancient(self._diagnosed("pairs.parquet"))

    def all_pairs_cards(self) -> list[str]:
        return self._diagnosed("pairs.card.json")

    def all_aliasing(self) -> list[str]:
        return self._diagnosed("aliasing.json")

    def all_probes(self) -> list[str]:
        return self._diagnosed("probe.json")

    def all_curves(self) -> list[str]:
        return self._each(self.training("curve.csv"))

    def all_episode_cards(self) -> list[str]:
        return self._per_env(self.episodes_card)

    def evidence(self, name: str) -> str:
        return str(layout.evidence(self.scale, name))

    def report(self, part: str) -> list[str]:
        """The files of one part of the report: tables, figures or numbers."""
        return [str(layout.report(self.scale, name)) for name in REPORT[part]]

    def shown(self, name: str) -> list[str]:
        """The files of one table or figure of the report."""
        return [path for part in ("tables", "figures") for path in self.report(part) if PurePath(path).stem == name]

    def phases(self) -> dict[str, list[str]]:
        return {
            "collect": self._per_env(self.episodes, self.episodes_card),
            "mine": self._per_env(*map(self.mined, MINED)),
            "train": self._each(*self.checkpoints(), *self.checkpoint_cards(), self.training("curve.csv")),
            "evaluate": self._each(self.rows, self.rows_card)
            + self._diagnosed(*DIAGNOSTICS)
            + self._per_env(self.floors, self.floors_card)
            + [path for rows in self.all_ceilings() + self.all_sweeps() for path in (rows, str(card_path(rows)))],
            "judge": [self.evidence(name) for name in EVIDENCE],
            "render": [path for part in REPORT for path in self.report(part)],
            "page": [str(layout.page(self.scale)), str(card_path(layout.page(self.scale)))],
            "paper": [str(layout.paper(self.scale))],
        }


def _ancient(paths: Iterable[str]) -> list:
    return [ancient(path) for path in paths]
