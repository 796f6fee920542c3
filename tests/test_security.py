"""Nothing that is given runs as code, and no name leads out of its folder.

Elsewhere: archives (test_archive.py), downloads (test_download.py), the web page (test_page.py), damaged files
(test_bad_inputs.py), a whole run in a folder with a hostile name (test_determinism.py).
"""

import ast
import json
import os
import pickle
import re
import shutil
import subprocess
import zipfile

import pytest
import torch

from conftest import ROOT
from tdjepa.base import snapshot
from tdjepa.base.artefacts import card_path, read_json, sha256, verified
from tdjepa.base.errors import UserError
from tdjepa.base.journal import Journal
from tdjepa.cli import main
from tdjepa.config.load import load, resolve
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data.store import Store
from tdjepa.evidence import alignment, bands, ledger, rows
from tdjepa.model import checkpoint
from tdjepa.model.released import read_tensors
from tdjepa.steps.diagnose import held_out
from tdjepa_workflow import announce

FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads"),
    *("pickle.Unpickler", "subprocess.getoutput", "subprocess.getstatusoutput", "torch.jit.load", "torch.hub.load"),
    *("marshal.load", "marshal.loads", "shelve.open", "joblib.load", "dill.load", "dill.loads", "pd.read_pickle"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "np.load", "numpy.load", "tempfile.mktemp"),
}


def calls():
    """(file, line, name, keywords) of every call in the package and the workflow."""
    for path in sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("workflow/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
                yield path.relative_to(ROOT).as_posix(), node.lineno, ast.unparse(node.func), keywords


def test_no_call_that_could_run_what_was_given():
    found = list(calls())
    assert len(found) > 1000
    assert not [call for call in found if call[2] in FORBIDDEN]
    assert not [call for call in found if call[3].get("shell", "False") != "False"]
    assert not [call for call in found if call[3].get("allow_pickle", "False") != "False"]
    loads = [call for call in found if call[2] == "torch.load"]
    assert loads
    assert all(call[3].get("weights_only") == "True" for call in loads)
    assert not [call for call in found if call[2].endswith((".extractall", ".extract"))]


def test_names_imported_from_those_modules_are_no_way_round():
    modules = ("pickle", "marshal", "shelve", "os", "yaml", "torch")
    for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("workflow/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                hidden = {f"{node.module}.{alias.name}" for alias in node.names} & (FORBIDDEN | {"torch.load"})
                assert not hidden, path


def test_every_value_in_a_shell_command_is_quoted():
    """Numbers that the parameters have checked may stand as they are."""
    numbers = {"params.seed", "resources.snapshot_every", "resources.reader_workers", "resources.reader_mb"}
    numbers |= {"resources.gather_every"}
    commands = written = 0
    for path in (ROOT / "Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))):
        written += len(re.findall(r"\bshell:", path.read_text()))
        for block in re.findall(r"^    shell:\n((?:        .*\n|\n)+)", path.read_text(), re.MULTILINE):
            commands += 1
            for literal in re.findall(r'(f?)"((?:[^"\\]|\\.)*)"', block):
                used = set(re.findall(r"\{([^{}]+)\}", literal[1]))
                if literal[0]:
                    assert used == {"S"}, block  # the scale: lower case, digits and _ (params.Name)
                else:
                    assert all(word.endswith(":q") or word in numbers for word in used), block
    assert commands == written >= 14  # none was overlooked


@pytest.mark.parametrize("folder", ["a b;'c\"$(touch owned)", "{x} {0}", "`touch owned`&& touch owned #", "é\\ü"])
def test_the_first_words_of_a_job_are_quoted_too(folder, tmp_path):
    from snakemake.shell import shell

    place = tmp_path / folder
    (place / "src").mkdir(parents=True)
    shell.prefix(announce.job_prefix(str(place), 1))
    try:
        command = f'{shell._process_prefix} printf %s "$PYTHONPATH"'
    finally:
        shell._process_prefix = None
    said = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == str(place / "src")
    assert [path.name for path in tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("name", ["..", "../../x", "/etc", "a/b", "a b", "A", "", "x;y", "two_room\n", "-rf", "$(x)"])
def test_names_from_a_shell_cannot_leave_their_folders(name, tmp_path, monkeypatch, capsys):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for option in ("--env", "--method", "--scale", "--sweep"):
        if name or option in ("--env", "--method"):  # an empty scale or sweep is none
            argv = ["evaluate", f"{option}={name}", *(["--scale=smoke"] if option != "--scale" else [])]
            status = main(argv)
            said = capsys.readouterr().err
            assert status == 2, (argv, said)
            assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "A", "x y", "x;y", "", "x\n", "é", "con.txt", "a" * 50])
def test_names_in_parameters_cannot_leave_their_folders(name):
    raw = read_yaml(ROOT / "params.yaml")
    raw["scales"]["smoke"]["methods"][name] = raw["methods"]["lewm"]
    raw["scales"]["smoke"]["methods_run"] = [name]
    raw["scales"]["smoke"]["evaluate"]["sweeps"][name] = raw["evaluate"]["sweeps"]["blend"]
    raw["scales"][name] = raw["scales"]["smoke"]
    for scale in filter(None, ("smoke", name)):  # no scale means the one of the file
        with pytest.raises(UserError, match=r"should match pattern|must be one of"):
            resolve(raw, scale)


@pytest.mark.parametrize("label", ["", "a\nb", "$\\frac$", "x" * 101, "\x1b[31m", "a\\input{b}"])
def test_a_label_is_one_plain_line(label):
    raw = read_yaml(ROOT / "params.yaml")
    raw["methods"]["lewm"]["label"] = label
    with pytest.raises(UserError, match=r"methods\.lewm\.label"):
        resolve(raw, "smoke")


class Bomb:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


READERS = {  # everything that opens a file which somebody may have given, by the name of such a file
    "episodes.h5": Store,
    "rows.parquet": lambda path: rows.read([path]),
    "measured.parquet": lambda path: alignment.read([path]),
    "pairs.parquet": held_out,
    "manifest.json": read_json,
    "params.yaml": load,
    "claims.yaml": ledger.read,
    "bands.yaml": bands.read,
    "x.card.json": lambda path: verified(path.with_name("x")),
    "epoch_01.safetensors": lambda path: checkpoint.read(path, {}),
    "weights.pt": read_tensors,
    "weights.safetensors": read_tensors,
}


def test_a_pickle_under_any_name_is_refused_and_not_run(tmp_path):
    (tmp_path / "x").write_text("x")
    owned = tmp_path / "owned"
    for name, read in READERS.items():
        path = tmp_path / name
        for kind in ("plain", "torch", "zip"):
            if kind == "plain":
                path.write_bytes(pickle.dumps(Bomb(owned), 2))
            elif kind == "torch":
                torch.save({"encoder.layernorm.weight": Bomb(owned)}, path)
            else:  # the shape of .npz and of torch.save
                with zipfile.ZipFile(path, "w") as file:
                    for member in ("archive/data.pkl", "arr_0.npy", "data.pkl"):
                        file.writestr(member, pickle.dumps(Bomb(owned), 2))
                    file.writestr("archive/version", "3\n")
            if name == "epoch_01.safetensors":  # with a card that vouches for it
                card_path(path).write_text(json.dumps({"sha256": sha256(path)}))
            with pytest.raises(UserError) as error:
                read(path)
            assert "\n" not in str(error.value), name
            assert not owned.exists(), name
            if name == "weights.pt" and kind != "zip":
                assert "holds more than tensors and is not loaded, it could run code" in str(error.value)


def test_a_journal_and_a_snapshot_are_no_way_in_either(tmp_path):
    owned = tmp_path / "owned"
    (tmp_path / ".running").mkdir()
    (tmp_path / ".running/snapshot.safetensors").write_bytes(pickle.dumps(Bomb(owned), 2))
    model = torch.nn.Linear(1, 1)
    assert snapshot.restore(tmp_path / ".running", "x", model, torch.optim.AdamW(model.parameters())).step == 0
    (tmp_path / "j").write_bytes(pickle.dumps(Bomb(owned), 2))
    assert Journal(tmp_path / "j", {}).done == {}
    assert not owned.exists()
