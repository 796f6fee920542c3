"""`tdjepa recipes search`: the trials of a declared grid, trained and planned on validation pairs.

    tdjepa recipes search --scale desk --jobs 2 --docs docs/recipes.md

Each trial runs the project's own steps, `collect`, `mine`, `train` and `evaluate`, as processes of their own. A finished trial
is a small JSON file in results/<scale>/recipes/trials and is not run again as long as its parameters stay what they were; one
that was stopped goes on where it was, because its steps do. Test pairs are never read.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pandas as pd

from tdjepa.base.artefacts import card_path, fingerprint, read_card, read_json, write_json
from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.config.params import Params
from tdjepa.config.slices import TrainSlice, slice_json, train_slice
from tdjepa.config.trials import Job
from tdjepa.steps.paths import path
from tdjepa.tools.recipes import said_seconds

LATER = 75  # the exit status of a step that was told to stop


def run(p: Params, wanted: list[Job], parallel: int = 1) -> dict:
    """Run what is not finished, `parallel` trials at a time; -> counts. A trial that fails does not stop the others."""
    todo = [job for job in wanted if result(p.scale, job) is None]
    search, failed = Search(p), {}
    with (
        ThreadPoolExecutor(parallel) as pool,
        progress(len(wanted), "search", "trials", len(wanted) - len(todo)) as bar,
    ):
        futures = {pool.submit(search.trial, job): job for job in todo}
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except UserError as error:
                    failed[futures[future].name] = str(error)
                bar.set_postfix_str(futures[future].name, refresh=False)
                bar.update()
        except BaseException:  # told to stop: the steps save what they have
            search.stop()
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        raise UserError("\n".join(f"{name}: {why}" for name, why in failed.items()))
    return {"trials": len(wanted), "run now": len(todo), "results": path("trials", p.scale)}


def result(scale: str, job: Job) -> dict | None:
    """What came out of a trial, if it was run with these very parameters."""
    file = Path(path("trials", scale, name=f"{job.name}.json"))
    found = read_json(file) if file.exists() else None
    return found if found and found["key"] == job.key else None


class Search:
    """The processes of a search and the data that its trials share."""

    def __init__(self, p: Params):
        self.p, self.running, self.stopped = p, set(), False
        self.lock, self.data_locks = threading.Lock(), defaultdict(threading.Lock)

    def trial(self, job: Job) -> None:
        """Data, training, evaluation, result."""
        work = Path(path("search", self.p.scale, name=job.name))
        episodes, mined = self.data(job)
        rows, data = work / "rows.parquet", {"episodes": episodes, "split": mined / "split.json"}
        more = {"backbone": self.backbone(job, data)} if job.train.method.backbone else {}
        trained, log = self.trained(job.train, work, **data, **more)
        files = {"episodes": episodes, "manifest": mined / "validation.json", "checkpoints": trained, "out": rows}
        self.step("evaluate", job.evaluate, work, **files)
        write_json(path("trials", self.p.scale, name=f"{job.name}.json"), summary(job, rows, log))

    def trained(self, cfg: TrainSlice, work: Path, **files: Path) -> tuple[Path, Path]:
        """The folder of a training and its log: the run's own if it is the same on the same data, else one made here."""
        last, names = f"epoch_{cfg.train.epochs:02d}", {"env": cfg.env, "method": cfg.method_name, "seed": cfg.seed}
        folder, of_run = work / "trained", Path(path("training", self.p.scale, **names))
        usual = Path(path("episodes", self.p.scale, env=cfg.env))
        if files["episodes"] == usual and _made_with(of_run / f"{last}.safetensors", cfg):
            return of_run, Path(path("log/train_{env}_{method}_{seed}.log".format(**names), self.p.scale))
        if not _made_with(folder / f"{last}.safetensors", cfg):
            self.step("train", cfg, work, **files, out=folder)
            for earlier in folder.glob("epoch_*"):
                if not earlier.name.startswith(last):
                    earlier.unlink()  # only the last epoch is planned with
        return folder, work / "train.log"

    def backbone(self, job: Job, data: dict[str, Path]) -> Path:
        """The checkpoint on whose latents a policy is tried: the scale's recipe of that method, one for all trials."""
        t = job.train
        cfg, name = train_slice(self.p, t.env, t.method.backbone, t.seed), f"backbone_{t.seed}_{job.data_key}"
        work = Path(path("search", self.p.scale, name=f"{t.env}/{t.method.backbone}/{name}"))
        with self.data_locks[str(work)]:
            return self.trained(cfg, work, **data)[0] / f"epoch_{cfg.train.epochs:02d}.safetensors"

    def data(self, job: Job) -> tuple[Path, Path]:
        """The episodes of a trial and what is mined from them: the scale's own file if it is the same, else one made here."""
        folder = Path(path("search_data", self.p.scale, env=job.train.env, name=job.data_key))
        usual = Path(path("episodes", self.p.scale, env=job.train.env))
        with self.data_locks[job.data_key]:
            episodes = usual if _made_with(usual, job.collect) else folder / "episodes.h5"
            if not _made_with(episodes, job.collect):
                self.step("collect", job.collect, folder, out=episodes)
            mined = folder / "mined"
            if not (mined / "mine.json").exists() or read_json(mined / "mine.json") != job.mine.model_dump(mode="json"):
                self.step("mine", job.mine, folder, episodes=episodes, out=mined)
                write_json(mined / "mine.json", job.mine.model_dump(mode="json"))
        return episodes, mined

    def step(self, verb: str, cfg, folder: Path, **files: Path) -> None:
        """Run a verb in a process of its own; its output goes to <folder>/<verb>.log."""
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{verb}.log"
        options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
        command = [sys.executable, "-m", "tdjepa", verb, "--slice", slice_json(cfg), *options]
        with open(log, "a") as out:
            with self.lock:
                if self.stopped:
                    raise UserError("stopped")
                # its own session: Ctrl-C reaches this process alone, which then tells the others to save and stop
                process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
                self.running.add(process)
            status = process.wait()
        self.running.discard(process)
        if status:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("tdjepa:")]
            said = "stopped" if status == LATER else lines[-1].removeprefix("tdjepa: ") if lines else "see its log"
            raise UserError(f"{verb} ended with status {status}: {said} ({log})")

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for process in self.running:
                if process.poll() is None:
                    os.kill(process.pid, signal.SIGTERM)


def _made_with(file: Path, cfg) -> bool:
    card = card_path(file)
    return file.exists() and card.exists() and read_card(card).get("params") == cfg.model_dump(mode="json")


def summary(job: Job, rows: Path, log: Path) -> dict:
    """A trial as it is kept: who, with what, how long, and how many pairs were solved by each cost."""
    table, cfg = pd.read_parquet(rows), job.train
    cell = job.evaluate.cells[0]
    steps = cfg.train.epochs * cfg.train.steps_per_epoch
    who = {"trial": job.trial, "env": cfg.env, "method": cfg.method_name, "train_seed": cfg.seed, "key": job.key}
    who["changes"] = job.changes
    made = {"steps": steps, "cpu_seconds": said_seconds(log), "machine": fingerprint(), "code": table.code.iloc[0]}
    made["planner"] = f"{cell.solver} {cell.planner.candidates} x {cell.refinements}"
    return {**who, **made, "success": {cost: counts(of_cost) for cost, of_cost in table.groupby("cost")}}


def counts(rows: pd.DataFrame) -> dict[str, list[int]]:
    """Solved pairs and all pairs: of all, without those that are solved at the start, by kind of episode if there are any."""
    groups = {"all": rows, "not_trivial": rows[~rows.trivial]}
    if "kind" in rows and rows.kind.nunique() > 1:
        groups |= {f"kind_{kind}": of_kind for kind, of_kind in rows.groupby("kind")}
    return {name: [int(group.success.sum()), len(group)] for name, group in groups.items()}
