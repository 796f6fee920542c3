"""The command line: thin. Each verb takes files and one slice of the parameters and gives files.

At a shell, `--scale desk` is enough: parameters come from params.yaml and paths from the usual folders. The workflow gives
both explicitly, `--slice` (canonical JSON) and the files. What a verb does is in verbs.py.
"""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from tdjepa import __version__, verbs
from tdjepa.base.errors import Stopped, UserError
from tdjepa.tools import time_spent as spent

AGAIN = 75  # EX_TEMPFAIL: the workflow starts the job again


class Terminated(KeyboardInterrupt):
    """SIGTERM: a cluster wants the machine back. Whatever cleans up after Ctrl-C does so after this."""


def terminate(*_):
    raise Terminated


def main(argv: list[str] | None = None) -> int:
    parser = argument_parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "verb"):
        parser.print_help()
        return 0
    is_job = getattr(args, "slice", None) is not None  # of the workflow
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes with a thread each beat one process with two
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)  # as Ctrl-C: nothing half-written is left
    try:
        status = args.verb(args) or 0
        if is_job:
            print(spent.own())  # its log says what it took
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `tdjepa status | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's own last flush must not fail either
        return 128 + signal.SIGPIPE
    except UserError as error:
        print("\n".join(f"tdjepa: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 2
    except Stopped as stopped:
        print(f"tdjepa: {stopped}", file=sys.stderr)
        return AGAIN
    except KeyboardInterrupt as told:
        what_next = "the same command starts again, or goes on where it was"
        print(f"tdjepa: stopped; nothing half-written is left, {what_next}", file=sys.stderr)
        return AGAIN if args.verb is verbs.train and isinstance(told, Terminated) else 130
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # who called this from Python has plans of their own


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tdjepa", description="Temporal-Distance-JEPA, reproduced, step by step.")
    parser.add_argument("--version", action="version", version=f"tdjepa {__version__}")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB")

    def verb(name, function, help, *options):
        sub = subparsers.add_parser(name, help=help, description=help)
        sub.set_defaults(verb=function)
        for flags, keywords in options:
            sub.add_argument(*flags, **keywords)

    env = (("--env",), {"default": "two_room", "help": "environment (default two_room)"})
    method = (("--method",), {"default": "tdjepa", "help": "method of params.yaml (default tdjepa)"})
    seed = (("--seed",), {"type": int, "help": "training seed (default: the first of params.yaml)"})
    params = (("--params",), {"type": Path, "default": Path("params.yaml"), "help": "parameter file"})
    scale = (("--scale",), {"help": "smoke, desk, night or paper (default: scale in params.yaml)"})
    slice_ = (("--slice",), {"help": "the parameters of this one job as JSON, instead of --params and --scale"})
    common = (params, scale, slice_)

    def file(name, help, **more):
        return ((f"--{name}",), {"type": Path, "help": help, **more})

    out = file("out", "where to write (default: the usual place of the scale)")
    episodes = file("episodes", "episodes.h5")
    verb("collect", verbs.collect, "make demonstrations of one environment", env, *common, out)
    verb(
        "fetch", verbs.fetch, "the released demonstrations instead of collected ones", env, *common, MIRROR, TRUST, out
    )
    data = (params, scale, episodes)
    docs = file("docs", "copy the table into this file, between its marks")
    some = (("--env",), {"action": "append", "help": "environment (again for a second one; default: all four)"})
    verb(
        "floors",
        verbs.floors,
        "random, zero action and replay on all test pairs, as a table",
        some,
        params,
        scale,
        docs,
    )
    verb(
        "pack",
        verbs.pack,
        "the same episodes in the other storage",
        env,
        *data,
        STORAGE,
        file("out", "new file", required=True),
    )
    verb("sheet", verbs.sheet, "a contact sheet of a data set, as PNG", env, *data, out)
    verb("mine", verbs.mine, "split, locked manifests and held-out pairs of a data set", env, *common, episodes, out)
    initial = file("initial", "checkpoint to continue from, for a method with `continues`", nargs="?")
    verb(
        "train",
        verbs.train,
        "train one model; after a kill the same command goes on where it was",
        *(env, method, seed, *common, episodes, file("split", "split.json"), initial, out, *RUNTIME),
    )
    verb(
        "evaluate",
        verbs.evaluate,
        "plan on a locked manifest; --method floors gives random, zero and replay",
        *(env, method, seed, *common, episodes, file("manifest", "test.json or validation.json")),
        *(file("checkpoints", "folder of the training"), out, file("times", "where to write the seconds of each plan")),
        (
            ("--sweep",),
            {"default": "", "help": "other planner settings than the protocol's: a name of evaluate.sweeps"},
        ),
    )
    of_model = (env, method, seed, *common)
    checkpoints = file("checkpoints", "folder of the training")
    verb(
        "picture",
        verbs.picture,
        "one planned episode as a GIF, beside its goal and with the imagined costs",
        *(*of_model, episodes, file("manifest", "test.json or validation.json"), checkpoints, out),
        (("--pair",), {"type": int, "default": 0, "help": "which pair of the manifest (default 0)"}),
        (("--cost",), {"help": "planning cost (default: the deployed one)"}),
    )
    verb("landscape", verbs.landscape, "Two-Room: the costs from everywhere to one goal", *of_model, checkpoints, out)
    verb(
        "diagnose",
        verbs.diagnose,
        "latent distances of held-out pairs, and the aliasing of the encoder",
        *(
            env,
            method,
            seed,
            *common,
            episodes,
            file("pairs", "pairs.parquet"),
            file("checkpoint", "the checkpoints of the curve's epochs, in order", nargs="+"),
            out,
        ),
        file("aliasing", "where to write the aliasing diagnostic"),
    )
    split = file("split", "split.json")
    verb(
        "probe",
        verbs.probe,
        "can the true state be read from the latent, and from imagined ones?",
        *(env, method, seed, *common, episodes, split, file("checkpoint", "a checkpoint"), out),
    )
    verb(
        "ceiling",
        verbs.ceiling,
        "the protocol's planner with the true simulator as its model",
        *(env, *common, episodes, split, file("manifest", "test.json or validation.json"), out),
    )
    verb(
        "import",
        verbs.import_,
        "a released LeWM checkpoint (weights.pt and config.json) as one of ours",
        (
            (
                ("--from",),
                {"type": Path, "dest": "source", "required": True, "help": "folder, or weights.pt, or .safetensors"},
            )
        ),
        file("config", "its config.json (default: beside the weights)"),
        (("--sha256",), {"help": "refuse other weights than these"}),
        *(env, RELEASED_METHOD, RELEASED_SEED, *common),
        file("episodes", "the data that the model was trained on, for the statistics of its actions"),
        file("out", "where to write, FOLDER/epoch_10.safetensors if it is to be evaluated", required=True),
    )
    verb(
        "export",
        verbs.export,
        "a checkpoint of ours in the released LeWM format",
        file("checkpoint", "one of our checkpoints", required=True),
        file("out", "folder for weights.pt and config.json", required=True),
        (
            ("--style",),
            {"choices": ("old", "new"), "default": "old", "help": "names of transformers before 5 or since"},
        ),
    )
    rows, pairs = file("rows", "rows files", nargs="+"), file("pairs", "pairs files of `diagnose`", nargs="+")
    verb("judge", verbs.judge, "statistics of evaluation rows", rows, pairs, *common, out)
    ledger = file("ledger", "claims with their tests (default paper/claims.yaml)", default=Path("paper/claims.yaml"))
    verb("claims", verbs.claims, "verdicts on the paper's claims", rows, pairs, ledger, SEED, *common, out)
    verb(
        "verify",
        verbs.verify,
        "compare results with the committed bands or checksums; exit 1 on a failure",
        params,
        scale,
        BANDS,
        BYTES,
        WRITE,
    )
    verb(
        "render",
        verbs.render,
        "tables, figures and numbers from everything that has been run",
        params,
        scale,
        slice_,
        ONLY,
        out,
    )
    verb("paper", verbs.paper, "the PDF", params, scale, out)
    verb("page", verbs.page, "everything as one web page that opens offline", params, scale, slice_, TIMES, out)
    readme = file("readme", "copy the scale's summary table into this README, between its marks")
    verb("summary", verbs.summary, "what came out and where, on one screen", params, scale, readme)
    verb("recipes", verbs.recipes, "success over CPU-minutes of training, as a table and a figure", params, scale, docs)
    verb(
        "status",
        verbs.status,
        "what is done, running, failed and left of a scale, and how long that takes",
        params,
        scale,
    )
    verb("cost", verbs.cost, "GPU-hours of a scale: operations counted, their rate assumed", params, scale, *TFLOPS)
    verb("doctor", verbs.doctor, "what this machine lacks, and what to install for what", params, scale)
    verb("params", verbs.check, "check params.yaml; --schema prints its JSON schema", params, scale, SCHEMA)
    verb("bench", verbs.bench, "measure a speed-up against the reference, one JSON line", BENCH, BENCH_ENV, BENCH_SIZE)
    return parser


STORAGE = (
    ("--storage",),
    {"choices": ("plain", "packed"), "default": "packed", "help": "of the new file (default packed)"},
)
MIRROR = (("--mirror",), {"action": "append", "help": "fetch from this URL instead (again for a second choice)"})
TRUST = (
    ("--trust-first-use",),
    {"action": "store_true", "help": "take a file whose sha256 nobody knows, and record it"},
)
RUNTIME = (  # instead of `runtime` of params.yaml
    (("--snapshot-every",), {"type": int, "help": "steps between two snapshots"}),
    (("--reader-workers",), {"type": int, "help": "threads that read ahead"}),
    (("--memory-mb",), {"type": int, "help": "bound on the frames that they hold"}),
)
RELEASED_METHOD = (("--method",), {"default": "lewm", "help": "method to file it under (default lewm)"})
RELEASED_SEED = (("--seed",), {"type": int, "default": 0, "help": "seed to file it under (default 0: not one of ours)"})
TIMES = (
    ("--times",),
    {"type": Path, "nargs": "+", "help": "benchmark files or expected seconds (default: what this machine measured)"},
)
TFLOPS = (
    (
        ("--train-tflops",),
        {"type": float, "default": 30, "help": "rate of training (default 30: a tenth of the bf16 peak of an A100)"},
    ),
    (
        ("--plan-tflops",),
        {"type": float, "default": 5, "help": "rate of planning (default 5: the published 30 s for 50 episodes)"},
    ),
    (("--peak-tflops",), {"type": float, "default": 312, "help": "peak of the GPU (default 312: an A100 in bf16)"}),
    (("--spent",), {"action": "store_true", "help": "instead: what the jobs of the run that was made here took"}),
    (("--measure",), {"action": "store_true", "help": "time a training step here, and say what that comes to"}),
)
SEED = (("--train-seed",), {"type": int, "help": "the training of the paper's protocol (default: the first)"})
BANDS = (("--bands",), {"type": Path, "help": "bands file (default workflow/bands/<scale>.yaml)"})
BYTES = (("--bytes",), {"action": "store_true", "help": "compare files with workflow/checksums/<scale>.json instead"})
WRITE = (("--write",), {"action": "store_true", "help": "write them from the results that are there"})
ONLY = (("--only",), {"choices": ("tables", "figures", "numbers"), "help": "only this part"})
SCHEMA = (("--schema",), {"action": "store_true", "help": "print the JSON schema"})
BENCH_ENV = (("--env",), {"help": "for collect: which environment (default two_room)"})
BENCH_SIZE = (
    ("--size",),
    {"choices": ("desk", "paper"), "help": "for train, plan: model and frames (default desk)"},
)
BENCH = (
    ("name",),
    {"choices": ("collect", "evaluate", "loader", "plan", "reader", "sigreg", "train"), "help": "what to measure"},
)
