"""The verbs beside the pipeline: they look, measure, convert and compare. The steps are in steps/registry.py."""

from tdjepa.steps.registry import DOCS, ENV, OUT, SCALE, SLICE, STEPS, Option, Verb, flag, value

STORAGES = ("plain", "packed")
PARTS = ("tables", "figures", "numbers")
BENCHES = ("collect", "evaluate", "loader", "plan", "reader", "sigreg", "train")
TOOLS = (
    Verb(
        "render",
        "tables, figures and numbers from everything that has been run",
        options=(*SCALE, SLICE, Option("only", "only this part", {"choices": PARTS}), OUT),
        slice="report",
    ),
    Verb(
        "summary",
        "what came out and where, on one screen",
        options=(*SCALE, value("readme", "copy the scale's summary table into this README, between its marks")),
    ),
    Verb(
        "verify",
        "compare results with the committed bands or checksums; exit 1 on a failure",
        options=(
            *SCALE,
            value("bands", "bands file (default workflow/bands/<scale>.yaml)"),
            flag("bytes", "compare files with workflow/checksums/<scale>.json instead"),
            flag("write", "write them from the results that are there"),
        ),
    ),
    Verb(
        "status",
        "what is done, running, failed and left of a scale, and how long that takes",
        "tdjepa.tools.status",
        SCALE,
    ),
    Verb(
        "cost",
        "GPU-hours of a scale: operations counted, their rate assumed",
        options=(
            *SCALE,
            value("train-tflops", "rate of training (default 30: a tenth of an A100's peak)", float, default=30),
            value("plan-tflops", "rate of planning (default 5: the published 30 s for 50 episodes)", float, default=5),
            value("peak-tflops", "peak of the GPU (default 312: an A100 in bf16)", float, default=312),
            flag("spent", "instead: what the jobs of the run that was made here took"),
            flag("measure", "time a training step here, and say what that comes to"),
        ),
    ),
    Verb("doctor", "what this machine lacks, and what to install for what", "tdjepa.tools.doctor", SCALE),
    Verb(
        "params",
        "check params.yaml, or show where each value comes from",
        "tdjepa.tools.parameters",
        (
            *SCALE,
            flag("resolved", "every value of the scale and where it comes from"),
            Option("env", "with --resolved and --method: the values of one training"),
            Option("method", "with --resolved and --env: the values of one training"),
            Option("diff", "what differs between the scale and this other one", {"metavar": "SCALE"}),
            flag("schema", "print the JSON schema"),
        ),
    ),
    Verb("recipes", "success over CPU-minutes of training, as a table and a figure", options=(*SCALE, DOCS)),
    Verb(
        "floors",
        "random, zero action and replay on all test pairs, as a table",
        options=(
            Option("env", "environment (repeat it for more; default: all four)", {"action": "append"}),
            *(*SCALE, DOCS),
        ),
    ),
    Verb(
        "sheet",
        "a contact sheet of a data set, as PNG",
        "tdjepa.tools.contact_sheet",
        (ENV, *SCALE, OUT),
        ("episodes",),
    ),
    Verb(
        "pack",
        "the same episodes in the other storage",
        "tdjepa.data.store:pack",
        (
            *(ENV, *SCALE, value("out", "new file", required=True)),
            Option("storage", "of the new file (default packed)", {"choices": STORAGES, "default": "packed"}),
        ),
        takes=("episodes",),
        shown=("episodes", "rows", "raw_bytes", "bytes", "sha256"),
    ),
    Verb(
        "import",
        "a released LeWM checkpoint (weights.pt and config.json) as one of ours",
        options=(
            value("from", "folder, or weights.pt, or .safetensors", dest="source", required=True),
            value("config", "its config.json (default: beside the weights)"),
            Option("sha256", "refuse other weights than these"),
            ENV,
            Option("method", "method to file it under (default lewm)", {"default": "lewm"}),
            value("seed", "seed to file it under (default 0: not one of ours)", int, default=0),
            *(*SCALE, SLICE),
            value("out", "where to write, FOLDER/epoch_10.safetensors if it is to be evaluated", required=True),
        ),
        takes=("episodes",),  # that the model was trained on, for the statistics of its actions
        slice="train",
    ),
    Verb(
        "export",
        "a checkpoint of ours in the released LeWM format",
        "tdjepa.model.released:run_export",
        (
            value("checkpoint", "one of our checkpoints", dest="source", required=True),
            value("out", "folder for weights.pt and config.json", required=True),
            Option("style", "names of transformers before 5 or since", {"choices": ("old", "new"), "default": "old"}),
        ),
        shown=("tensors", "sha256"),
    ),
    Verb(
        "bench",
        "measure a speed-up against the reference, one JSON line",
        options=(
            Option("name", "what to measure", {"choices": BENCHES, "positional": True}),
            Option("env", "for collect: which environment (default two_room)"),
            Option("size", "for train, plan: model and frames (default desk)", {"choices": ("desk", "paper")}),
        ),
    ),
)
VERBS = {verb.name: verb for verb in (*(step for step in STEPS.values() if not step.verb), *TOOLS)}
