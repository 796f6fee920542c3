"""A slice of `make rehearsal`: the paper's scale with two environments and two methods, from released files to the PDF."""

import pytest

from clone import NOTHING, Clone
from tdjepa.base.artefacts import read_json

pytestmark = pytest.mark.pipeline

METHODS = {"tdjepa": 18_034_478 + 231_168, "lewm": 18_034_478}  # parameters, with the head and without


def test_from_released_files_to_the_pdf_and_a_released_checkpoint(tmp_path):
    clone = Clone.of_project(tmp_path / "a rehearsal")
    clone.reduce_rehearsal(["push_t", "cube"], list(METHODS))
    with clone.executed() as jobs:
        clone.rehearse("snakemake", "--cores", "2", "all")
    assert {"fetch_push_t", "fetch_cube"} <= jobs
    results = clone.path / "results/rehearsal"
    assert (results / "paper.pdf").read_bytes()[:5] == b"%PDF-"
    for env in ("push_t", "cube"):
        card = read_json(clone.path / f"data/rehearsal/episodes/{env}/episodes.card.json")
        about = {name: card[name] for name in ("verb", "checksum", "storage", "image_size", "episodes")}
        fetched = {"verb": "fetch", "checksum": "known before", "storage": "packed"}
        assert about == fetched | {"image_size": 224, "episodes": 10}
        for method, parameters in METHODS.items():
            card = read_json(results / f"train/{env}/{method}/3072/epoch_02.card.json")
            extra = 150 if env == "cube" else 0  # its action has five numbers instead of two
            assert card["parameters"]["all"] == parameters + extra
            assert card["params"]["train"]["accumulate"] == (4 if env == "push_t" else 1)
            assert card["params"]["train"]["precision"] == "bf16"
    assert NOTHING in clone.rehearse("snakemake", "--cores", "2", "all", "--dry-run")
    # a released checkpoint, as README.md says
    tdjepa, released = ("python", "-m", "tdjepa"), "results/rehearsal/released"
    scale = ["--env", "push_t", "--scale", "rehearsal"]
    weights = "build/mirror/quentinll/lewm-pusht/resolve/main"
    clone.run(*tdjepa, "import", "--from", weights, *scale, "--out", f"{released}/epoch_02.safetensors")
    planned = ["--method", "lewm", "--seed", "0", "--checkpoints", released, "--out", f"{released}/rows.parquet"]
    assert "lewm" in clone.run(*tdjepa, "evaluate", *planned, *scale)
