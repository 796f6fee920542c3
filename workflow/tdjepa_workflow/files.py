"""The files of a scale, as the registry of steps declares them: what a rule takes and makes, what a phase asks for.

A big file comes with a small card that holds its sha256. Rules take the big file as `ancient` (its time stamp says nothing)
and the card beside it, whose checksum Snakemake compares: it does not look into files of more than a megabyte.

A group of methods (`groups` in params.yaml) is run when it is asked for: by its name, or by the name of a file of it. Then it
is like the rest. Otherwise the report takes what has been run of it before as files that no rule makes: they appear and change,
and the report with them, but however stale they are, nothing trains them again.
"""

import os
import re
import sys
from collections.abc import Sequence
from os.path import exists as _there

from snakemake.io import ancient

from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.part import place
from tdjepa.config.records.part import Part
from tdjepa.config.slices import evaluate_slice
from tdjepa.report.gather import run_so_far
from tdjepa.steps.paths import card, path
from tdjepa.steps.registry import BIG, PHASES, STEPS, Step

WILDCARDS = {name: f"{{{name}}}" for name in ("env", "method", "seed", "sweep", "part")}


class Files:
    """Paths with wildcards, as rules want them, and the full lists of a kind or phase."""

    def __init__(self, p: Params, asked: Sequence[str] = ()):
        """`asked`: the groups of methods that are run this time."""
        self.p, self.scale = p, p.scale
        self._asked = runs.widened(p, *asked) if asked else p

    def one(self, kind: str, **names) -> str:
        """The file of that kind; what is not given stays a wildcard."""
        return str(path(kind, place(self.p, kind), **WILDCARDS | names))

    def card(self, kind: str, **names) -> str:
        return card(self.one(kind, **names))

    def all(self, *kinds: str, **only: str) -> list[str]:
        """Every file of these kinds that `snakemake all` makes; `only` names a sweep, say."""
        return self._all(self.p, kinds, only)

    def _all(self, p: Params, kinds: Sequence[str], only: dict[str, str]) -> list[str]:
        return [
            file
            for kind in kinds
            for step in STEPS.values()
            if kind in step.gives
            for job in runs.jobs(p, step.jobs)
            if only.items() <= job.items()
            for file in self._files(kind, job)
        ]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that rules may run."""
        return (runs.widened(self.p) if self.p.part.methods else self._asked).methods_run

    def group(self, name: str) -> list[str]:
        """Everything that is trained, planned and measured of a group's methods."""
        p = self.p.model_copy(update={"methods_run": self.p.groups[name], "groups": {}})
        return self._all(p, [kind for step in STEPS.values() if step.per == "training" for kind in step.gives], {})

    def reported(self, *kinds: str) -> list[str]:
        """The files of these kinds that the report is made of: those of the run and what has been run of other groups."""
        wanted, p = dict.fromkeys(self._all(self._asked, kinds, {})), run_so_far(self.p)
        others = {file: kind in BIG for kind in kinds for file in self._all(p, [kind], {}) if file not in wanted}
        return [*wanted, *(file for file, big in others.items() if _there(file) and (not big or _there(card(file))))]

    def rows(self) -> list[str]:
        return self.reported("rows", "floors", "ceiling", "ladder", "sweep")

    def envs_from(self, source: str) -> str:
        """The environments with that source of demonstrations, as a pattern; one that matches nothing if there are none."""
        return "|".join(env for env, word in self.p.collect.source.items() if word == source) or "(?!)"

    def log(self, name: str) -> str:
        return self.one("log", name=f"{name}.log")

    def times(self, name: str) -> str:
        """Seconds of each plan: they differ from run to run, so they are no result."""
        return self.one("log", name=f"{name}.times.csv")

    def benchmark(self, name: str) -> str:
        return self.one("benchmark", name=f"{name}.tsv")

    def checkpoints(self) -> list[str]:
        return [self.one("checkpoint", epoch=epoch) for epoch in range(1, self.p.train.epochs + 1)]

    def backbone(self, w) -> list[str]:
        """The checkpoint whose latents a policy is trained on; none for a method that learns its own."""
        method = self.p.methods[w.method].backbone
        return (
            [self.one("checkpoint", env=w.env, method=method, seed=w.seed, epoch=self.p.train.epochs)] if method else []
        )

    def diagnosed(self) -> list[str]:
        """The checkpoints of a training whose latents are measured."""
        return [self.one("checkpoint", epoch=epoch) for epoch in runs.diagnosed_epochs(self.p)]

    def evaluated(self, w, sweep: str = "") -> list[str]:
        """The checkpoints that an evaluation needs."""
        cells = evaluate_slice(self.p, w.env, w.method, int(w.seed), sweep).cells
        return [self.one("checkpoint", epoch=epoch) for epoch in sorted({cell.epoch for cell in cells})]

    def pictures(self) -> list[str]:
        """An episode with the deployed cost in each environment, and Two-Room's landscape."""
        found = []
        for env, (_, method, seed) in {training[0]: training for training in reversed(runs.trainings(self.p))}.items():
            names = [f"{runs.planned_cost(self.p, env, method)}_{i}.gif" for i in range(3)]
            names += ["landscape.pdf", "landscape.png"] if env == "two_room" else []
            found += [self.one("picture", env=env, name=name, method=method, seed=seed) for name in names]
        return found

    def shown(self, name: str) -> list[str]:
        """The files of one table or figure of the report."""
        parts = (*STEPS["tables"].gives, *STEPS["figures"].gives)
        return [self.one(part) for part in parts if part.rsplit("/", 1)[1].split(".")[0] == name]

    def gives(self, step: str) -> list[str]:
        """What one job of the step makes, with wildcards."""
        return [self.one(kind) for kind in STEPS[step].gives]

    def phases(self) -> dict[str, list[str]]:
        """What `snakemake all` makes, phase by phase."""
        made: dict[str, dict] = {phase: {} for phase in PHASES}
        for step in STEPS.values():
            if step.phase:
                made[step.phase] |= dict.fromkeys(self._outputs(step))
        return {phase: list(files) for phase, files in made.items()}

    def known(self) -> dict[str, list[str]]:
        """The same of the whole scale, with all groups of methods."""
        whole = self.p.model_copy(update={"part": Part()})
        return Files(runs.widened(whole)).phases()

    def _outputs(self, step: Step) -> list[str]:
        jobs = runs.jobs(self.p, step.jobs)
        files = [(kind, file) for job in jobs for kind in step.gives for file in self._files(kind, job)]
        return [name for kind, file in files for name in ((file, card(file)) if kind in BIG else (file,))]

    def _files(self, kind: str, job: dict) -> list[str]:
        """Those of one job; a training has a checkpoint per epoch."""
        if kind == "checkpoint":
            return [self.one(kind, epoch=epoch, **job) for epoch in range(1, self.p.train.epochs + 1)]
        return [self.one(kind, **job)]


def groups_of_run(p: Params, main_process: bool) -> list[str]:
    """The groups that this run was asked for. Its jobs, on other nodes too, inherit them through the environment."""
    if main_process:
        os.environ["TDJEPA_GROUPS"] = " ".join(asked(p, sys.argv[1:]))
    return os.environ.get("TDJEPA_GROUPS", "").split()


def asked(p: Params, words: Sequence[str]) -> list[str]:
    """The groups that the words of the command line ask for: by name, or by a file of one of their methods."""
    files = {name: re.compile(rf"/({'|'.join(methods)})(/|_\d)") for name, methods in p.groups.items() if methods}
    return [name for name in p.groups if name in words or (name in files and any(map(files[name].search, words)))]


def ancients(files: list[str]) -> list:
    """Their time stamps say nothing: their cards are compared."""
    return [ancient(file) for file in files]
