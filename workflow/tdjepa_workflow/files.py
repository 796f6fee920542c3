"""The files of a scale, as the registry of steps declares them: what a rule takes and makes, what a phase asks for.

A big file comes with a small card that holds its sha256. Rules take the big file as `ancient` (its time stamp says nothing)
and the card beside it, whose checksum Snakemake compares: it does not look into files of more than a megabyte.
"""

from snakemake.io import ancient

from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.slices import evaluate_slice
from tdjepa.steps.paths import card, path
from tdjepa.steps.registry import BIG, PHASES, STEPS, Step

WILDCARDS = {name: f"{{{name}}}" for name in ("env", "method", "seed", "sweep")}


class Files:
    """Paths with wildcards, as rules want them, and the full lists of a kind or phase."""

    def __init__(self, p: Params):
        self.p, self.scale = p, p.scale

    def one(self, kind: str, **names) -> str:
        """The file of that kind; what is not given stays a wildcard."""
        return str(path(kind, self.scale, **WILDCARDS | names))

    def card(self, kind: str, **names) -> str:
        return card(self.one(kind, **names))

    def all(self, *kinds: str, **only: str) -> list[str]:
        """Every file of these kinds that the scale has; `only` names a sweep, say."""
        return [
            file
            for kind in kinds
            for step in STEPS.values()
            if kind in step.gives
            for job in runs.jobs(self.p, step.jobs)
            if only.items() <= job.items()
            for file in self._files(kind, job)
        ]

    def cards(self, *kinds: str) -> list[str]:
        return [card(file) for file in self.all(*kinds)]

    def rows(self) -> list[str]:
        return self.all("rows", "floors", "ceiling", "sweep")

    def rows_cards(self) -> list[str]:
        return [card(file) for file in self.rows()]

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

    def initial(self, env: str, method: str, seed: str) -> list[str]:
        """The checkpoint that a training starts from: none, or that of the method it continues."""
        before = self.p.methods[method].continues
        return [self.one("checkpoint", env=env, seed=seed, **before.model_dump())] if before else []

    def diagnosed(self) -> list[str]:
        """The checkpoints of a training whose latents are measured."""
        return [self.one("checkpoint", epoch=epoch) for epoch in runs.diagnosed_epochs(self.p)]

    def evaluated(self, w, sweep: str = "") -> list[str]:
        """The checkpoints that an evaluation needs."""
        cells = evaluate_slice(self.p, w.env, w.method, int(w.seed), sweep).cells
        return [self.one("checkpoint", epoch=epoch) for epoch in sorted({cell.epoch for cell in cells})]

    def pictures(self) -> list[str]:
        """An episode with the deployed cost in each environment, and Two-Room's landscape."""
        names = {env: [f"{self.p.evaluate.protocol[env].deployed}_{i}.gif" for i in range(3)] for env in self.p.envs}
        if "two_room" in names:
            names["two_room"] += ["landscape.pdf", "landscape.png"]
        who = {"method": self.p.methods_run[0], "seed": self.p.train_seeds[0]}
        return [self.one("picture", env=env, name=name, **who) for env in names for name in names[env]]

    def shown(self, name: str) -> list[str]:
        """The files of one table or figure of the report."""
        parts = (*STEPS["tables"].gives, *STEPS["figures"].gives)
        return [self.one(part) for part in parts if part.rsplit("/", 1)[1].split(".")[0] == name]

    def gives(self, step: str) -> list[str]:
        """What one job of the step makes, with wildcards."""
        return [self.one(kind) for kind in STEPS[step].gives]

    def phases(self) -> dict[str, list[str]]:
        found: dict[str, dict] = {phase: {} for phase in PHASES}
        for step in STEPS.values():
            if step.phase:
                found[step.phase] |= dict.fromkeys(self._outputs(step))
        return {phase: list(files) for phase, files in found.items()}

    def _outputs(self, step: Step) -> list[str]:
        jobs = runs.jobs(self.p, step.jobs)
        files = [(kind, file) for job in jobs for kind in step.gives for file in self._files(kind, job)]
        return [name for kind, file in files for name in ((file, card(file)) if kind in BIG else (file,))]

    def _files(self, kind: str, job: dict) -> list[str]:
        """Those of one job; a training has a checkpoint per epoch."""
        if kind == "checkpoint":
            return [self.one(kind, epoch=epoch, **job) for epoch in range(1, self.p.train.epochs + 1)]
        return [self.one(kind, **job)]


def ancients(files: list[str]) -> list:
    """Their time stamps say nothing: their cards are compared."""
    return [ancient(file) for file in files]
