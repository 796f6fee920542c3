"""Released checkpoints: import equals the library's own model, export gives the same tensors back, nothing odd is let in."""

import functools
import json

import numpy as np
import pandas as pd
import pytest
import torch

import library  # first: it lets torchvision, which transformers imports, load beside a CPU torch
from conftest import ROOT
from synthetic import write_episodes
from tdjepa.base.artefacts import card_path, read_json, sha256
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config.load import load
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse
from tdjepa.config.records.model import Model
from tdjepa.config.slices import train_slice
from tdjepa.data import store
from tdjepa.model import checkpoint, released
from tdjepa.model.released_config import read_config
from tdjepa.model.world_model import build

KEYPOINTS = {"readout": "keypoints"}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}


def config(image_size=28, small=True, patch=14, latent=32, block=10):
    """config.json as it is released, or shrunk."""
    norm = {"_target_": "torch.nn.BatchNorm1d", "_partial_": True}
    mlp = {"_target_": "stable_worldmodel.wm.lewm.module.MLP", "norm_fn": norm}
    mlp |= {"input_dim": latent, "output_dim": latent, "hidden_dim": 48 if small else 2048}
    embedder = {"_target_": "stable_worldmodel.wm.lewm.module.Embedder", "input_dim": block, "emb_dim": latent}
    size = {"size": "tiny", "patch_size": patch, "image_size": image_size, "pretrained": False, "use_mask_token": False}
    shape = {"depth": 2, "heads": 2, "mlp_dim": 40, "dim_head": 8} if small else {"depth": 6, "heads": 16}
    return {
        "_target_": "stable_worldmodel.wm.lewm.LeWM",
        "encoder": {"_target_": "stable_pretraining.backbone.utils.vit_hf", **size, **(SMALL if small else {})},
        "predictor": {
            "_target_": "stable_worldmodel.wm.lewm.module.Predictor",
            **{"num_frames": 3, "input_dim": latent, "hidden_dim": latent, "output_dim": latent},
            **{"mlp_dim": 2048, "dim_head": 64, "dropout": 0.1, "emb_dropout": 0.0, **shape},
        },
        "action_encoder": embedder,
        "projector": mlp,
        "pred_proj": mlp,
    }


def reference(cfg, initial=False):
    """The library's LeWM around a Hugging Face ViT in eval mode; unless `initial`, norms and running statistics random too."""
    from transformers import ViTConfig, ViTModel

    e = cfg["encoder"]
    tiny = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
    shape = {key: e.get(key, usual) for key, usual in tiny.items()}
    own = {key: value for key, value in cfg.items() if key != "_target_"}
    own = {k: {key: v for key, v in part.items() if key not in ("_target_", "norm_fn")} for k, part in own.items()}
    vit = ViTConfig(image_size=e["image_size"], patch_size=e["patch_size"], **shape)
    model = library.LeWM(
        encoder=ViTModel(vit, add_pooling_layer=False),
        predictor=library.Predictor(**own["predictor"]),
        action_encoder=library.Embedder(**own["action_encoder"]),
        projector=library.MLP(**own["projector"], norm_fn=torch.nn.BatchNorm1d),
        pred_proj=library.MLP(**own["pred_proj"], norm_fn=torch.nn.BatchNorm1d),
    )
    generator = torch.Generator().manual_seed(0)
    for name, tensor in model.state_dict().items():
        if not initial and tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.ndim > 1:
                tensor.copy_(noise / tensor[0].numel() ** 0.5)
            elif name.endswith("running_var"):
                tensor.copy_(1 + 0.5 * noise.tanh())
            else:
                tensor.copy_(0.1 * noise + ("bias" not in name))
    return model.eval()


def tensors_of(model, style, folder):
    """The state dict with the encoder's new names (as in memory) or its old ones (as transformers itself saves them)."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if style == "new":
        return state
    from safetensors.torch import load_file

    model.encoder.save_pretrained(folder / "vit")
    old = {f"encoder.{k}": v for k, v in load_file(folder / "vit/model.safetensors").items()}
    return old | {k: v for k, v in state.items() if not k.startswith("encoder.")}


def write(folder, tensors, cfg):
    folder.mkdir(exist_ok=True)
    torch.save(tensors, folder / "weights.pt")
    (folder / "config.json").write_text(json.dumps(cfg))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A small released checkpoint and episodes of its frame size. -> folder, with weights/ and episodes.h5"""
    folder = tmp_path_factory.mktemp("released")
    write_episodes(folder / "episodes.h5", 28)
    write(folder / "weights", tensors_of(reference(config()), "new", folder), config())
    return folder


@functools.cache
def slice_(method="lewm"):
    return train_slice(load(ROOT / "params.yaml", "paper"), "two_room", method, 0)


def run(place, source, out, **more):
    return released.run_import(slice_(), source, None, place / "episodes.h5", out, **more)


@pytest.fixture(scope="module")
def full():
    """The library's model at the released shape, frames and actions, and what it makes of them."""
    model = reference(config(image_size=224, small=False, latent=192))
    generator = torch.Generator().manual_seed(1)
    pixels, actions = torch.randn(2, 3, 224, 224, generator=generator), torch.randn(1, 2, 10, generator=generator)
    with torch.no_grad():
        cls = model.encoder(pixels).last_hidden_state[:, 0]
        info = model.encode({"pixels": pixels[None], "action": actions})
        return model, pixels, actions, cls, info, model.predict(info["emb"], info["act_emb"])


def imported(cfg, tensors, folder):
    shape, image_size, block = read_config(cfg, slice_().model, folder)
    model = released.build(shape, "none", image_size, block, 0)
    released.load_released(model, tensors, folder)
    return model.eval()


@pytest.mark.parametrize("style", released.STYLES)
def test_an_imported_model_equals_the_librarys_at_the_released_shape(style, full, tmp_path):
    theirs, pixels, actions, cls, info, predicted = full
    tensors = tensors_of(theirs, style, tmp_path)
    assert len(tensors) == 303
    assert any("attention.attention.query" in name for name in tensors) == (style == "old")
    ours = imported(config(image_size=224, small=False, latent=192), tensors, tmp_path)
    assert sum(p.numel() for p in ours.parameters()) == 18_034_478  # of the released files, counted by their users
    with torch.no_grad():
        x = ours.encoder(pixels.permute(0, 2, 3, 1))
        z, c = ours.projector(x)[None], ours.action_encoder(actions)
        torch.testing.assert_close(x, cls, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(z, info["emb"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(c, info["act_emb"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(ours.predict(z, c), predicted, atol=1e-4, rtol=1e-5)


def test_a_frame_without_contrast_gives_the_same_embedding(tmp_path):
    """Nearly constant tokens show the epsilon of the layer norms, which timm and Hugging Face choose differently."""
    theirs, pixels = reference(config(), initial=True), torch.zeros(1, 3, 28, 28)
    with torch.no_grad():
        cls = theirs.encoder(pixels).last_hidden_state[:, 0]
        ours = imported(config(), theirs.state_dict(), tmp_path).encoder(pixels.permute(0, 2, 3, 1))
    torch.testing.assert_close(ours, cls, atol=1e-5, rtol=1e-5)


def test_a_training_starts_with_weights_like_the_librarys(tmp_path):
    """Constant where the library's are, and otherwise as wide: by five standard errors of the std of so many numbers."""
    theirs = imported(
        config(small=False, latent=192), reference(config(small=False, latent=192), True).state_dict(), tmp_path
    )
    ours = build(load(ROOT / "params.yaml", "paper").model, "none", 28, 10, 1)
    expected = dict(theirs.named_parameters())
    assert expected.keys() == dict(ours.named_parameters()).keys()
    for name, found in ours.named_parameters():
        width = float(expected[name].std())
        tolerance = (
            5 * width / (2 * found.numel()) ** 0.5 * 1.5
        )  # a uniform one is narrower than a Gaussian, so its std is surer
        assert float(found.std()) == pytest.approx(width, abs=tolerance), name
        assert float(found.mean()) == pytest.approx(
            float(expected[name].mean()), abs=10 * width / found.numel() ** 0.5
        ), name


@pytest.mark.parametrize("style", released.STYLES)
def test_export_gives_the_same_tensors_back(style, place, tmp_path):
    run(place, place / "weights", tmp_path / "a.safetensors")
    card = released.run_export(tmp_path / "a.safetensors", tmp_path / "out", style)
    again = run(place, tmp_path / "out", tmp_path / "b.safetensors", expected=card["sha256"])
    a, b = (checkpoint.load(tmp_path / f"{name}.safetensors")[0].state_dict() for name in "ab")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert again["checked"] == "sha256 given"
    if style == "new":  # and to what was imported in the first place
        source, back = (torch.load(f / "weights.pt", weights_only=True) for f in (place / "weights", tmp_path / "out"))
        assert source.keys() == back.keys()
        assert all(torch.equal(source[name], back[name]) for name in source)


def test_safetensors_and_half_precision_are_read(place, tmp_path):
    from safetensors.torch import save_file

    tensors = torch.load(place / "weights/weights.pt", weights_only=True)
    half = {k: v.half().contiguous() if v.is_floating_point() else v for k, v in tensors.items()}
    save_file(half, tmp_path / "weights.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config()))
    card = run(place, tmp_path / "weights.safetensors", tmp_path / "out/a.safetensors")
    model, _ = checkpoint.load(tmp_path / "out/a.safetensors")
    assert card["dtypes"] == ["float16"]
    assert model.projector[0].weight.dtype == torch.float32
    assert torch.equal(model.projector[0].weight, half["projector.net.0.weight"].float())


def test_normalisation_comes_from_all_episodes_and_imagenet(place, tmp_path):
    card = run(place, place / "weights", tmp_path / "a.safetensors")
    model, _ = checkpoint.load(tmp_path / "a.safetensors")
    action = store.Store(place / "episodes.h5").action
    np.testing.assert_allclose(model.action_mean.numpy(), np.tile(np.nanmean(action, 0), 5), rtol=1e-6)
    np.testing.assert_allclose(model.action_std.numpy(), np.tile(np.nanstd(action, 0), 5), rtol=1e-6)
    np.testing.assert_allclose(model.pixel_mean.numpy() / 255, [0.485, 0.456, 0.406], atol=1e-6)
    assert card["verb"] == "import"
    assert card["inputs"]["weights"] == sha256(place / "weights/weights.pt")
    assert card["checked"] == "nothing to compare with"


def test_an_imported_checkpoint_is_evaluated_at_a_shell(data, tmp_path, monkeypatch):
    cfg = config(image_size=32, patch=16)
    write(tmp_path / "theirs", reference(cfg).state_dict(), cfg)
    monkeypatch.chdir(ROOT)
    scale = ["--scale", "smoke", "--episodes", str(data / "episodes.h5")]
    out = tmp_path / "ours/epoch_02.safetensors"
    assert main(["import", "--from", str(tmp_path / "theirs"), *scale, "--out", str(out)]) == 0
    manifest = ["--manifest", str(data / "mined/test.json"), "--checkpoints", str(out.parent)]
    rows = tmp_path / "rows.parquet"
    assert main(["evaluate", "--method", "lewm", "--seed", "0", *scale, *manifest, "--out", str(rows)]) == 0
    table = pd.read_parquet(rows)
    assert set(table.checkpoint) == {read_json(card_path(out))["sha256"][:16]}
    assert (table.train_seed == 0).all()


def renamed(tensors):
    for name in [name for name in tensors if "encoder.layers.1" in name]:
        tensors[name.replace(".layers.", ".blocks.")] = tensors.pop(name)


BIAS, NORM = "projector.net.0.bias", "encoder.layernorm.weight"
PLAIN = "a plain state dict, name to tensor, is expected"
WRONG = {
    "lacks predictor.pos_embedding; it does not fit its config.json": lambda t: t.pop("predictor.pos_embedding"),
    "has unknown extra; it does not fit": lambda t: t.update(extra=torch.zeros(1)),
    rf"{NORM} is \(3,\), its config": lambda t: t.update({NORM: torch.ones(3)}),
    f"{BIAS} has values that are not finite": lambda t: t[BIAS].fill_(float("nan")),
    "torch.int64, expected floats": lambda t: t.update({BIAS: torch.ones(48, dtype=torch.int64)}),
    f"{PLAIN}; 'epoch' is a int": lambda t: t.update(epoch=3),
    f"{PLAIN}; the name 0 is a int": lambda t: t.update({0: torch.ones(1)}),
    r"lacks encoder.layers.1.attention.k_proj.bias.* and 13 more and has unknown .* and 13 more": renamed,
}


@pytest.mark.parametrize("message", WRONG)
def test_weights_that_do_not_fit_are_named_in_one_line(message, place, tmp_path):
    tensors = torch.load(place / "weights/weights.pt", weights_only=True)
    WRONG[message](tensors)
    with pytest.raises(UserError, match=message) as error:
        run(place, write(tmp_path / "bad", tensors, config()), tmp_path / "a.safetensors")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "a.safetensors").exists()


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("predictor", "depth", 3, r"lacks predictor.transformer.layers.2.* it does not fit its config.json"),
        ("predictor", "hidden_dim", 64, "config.json: predictor.hidden_dim = 64: expected 32"),
        ("predictor", "emb_dropout", 0.1, r"predictor\.emb_dropout"),
        ("encoder", "use_mask_token", True, r"encoder\.use_mask_token = True"),
        ("encoder", "size", "giant", "encoder.size = 'giant'"),
        ("encoder", "num_attention_heads", 5, "model.encoder.heads = 5: must divide"),
        ("encoder", "_target_", "timm.x", "encoder._target_: 'timm.x' is another model; only vit_hf"),
        ("encoder", "patch_size", "14", "encoder.patch_size = '14': expected a whole number of at least 1"),
        ("encoder", "patch_size", None, "encoder.patch_size: missing; a value is needed"),
        ("projector", "norm_fn", {"_target_": "torch.nn.LayerNorm", "_partial_": True}, "only BatchNorm1d"),
        ("projector", "bias", False, "projector.bias = False: no such key"),
        ("action_encoder", "input_dim", 25, r"action_encoder.patch_embed.weight is \(10, 10, 1\).*\(10, 25, 1\)"),
        ("encoder", "image_size", 56, r"position_embeddings is \(1, 5, 32\), its config.json asks for \(1, 17, 32\)"),
    ],
)
def test_a_config_that_does_not_fit_is_named(section, key, value, message, place, tmp_path):
    cfg = json.loads(json.dumps(config()))
    cfg[section][key] = value
    (tmp_path / "config.json").write_text(json.dumps(cfg))
    files = (place / "weights/weights.pt", tmp_path / "config.json", place / "episodes.h5", tmp_path / "a.safetensors")
    with pytest.raises(UserError, match=message):
        released.run_import(slice_(), *files)


def test_a_known_release_of_another_environment_is_refused(place, tmp_path, monkeypatch):
    """Push-T's weights fit Two-Room's shapes, so only their sha256 can tell."""
    found = sha256(place / "weights/weights.pt")
    monkeypatch.setitem(released.KNOWN, found, ("quentinll/lewm-pusht", "push_t"))
    why = r"--env two_room: .*weights\.pt is quentinll/lewm-pusht, a model of push_t; give"
    with pytest.raises(UserError, match=why):
        run(place, place / "weights", tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(released.KNOWN, found, ("quentinll/lewm-tworooms", "two_room"))
    card = run(place, place / "weights", tmp_path / "a.safetensors")
    assert (card["source"], card["checked"]) == ("quentinll/lewm-tworooms", "a known release")


def test_other_files_and_other_data_are_refused(place, tmp_path):
    out = tmp_path / "a.safetensors"
    with pytest.raises(UserError, match="sha256 is [0-9a-f]{64}, expected 00ff; download it again"):
        run(place, place / "weights", out, expected="00ff")
    folder = write(tmp_path / "cut", {}, config())
    (folder / "weights.pt").write_bytes((place / "weights/weights.pt").read_bytes()[:5000])
    with pytest.raises(UserError, match=r"weights.pt: .*download it again"):
        run(place, folder, out)
    (folder / "weights.pt").unlink()
    with pytest.raises(UserError, match="one .pt or .safetensors file is expected there, found none"):
        run(place, folder, out)
    write_episodes(tmp_path / "big.h5", 42)
    with pytest.raises(UserError, match="has 42-px frames and action blocks of 10; .* says 28 px and 10"):
        released.run_import(slice_(), place / "weights", None, tmp_path / "big.h5", out)
    with pytest.raises(UserError, match="--method tdjepa: has the head 'mrn', but released checkpoints have none"):
        released.run_import(slice_("tdjepa"), place / "weights", None, place / "episodes.h5", out)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"predictor": {"residual": True}}, "a residual predictor"),
        ({"encoder": KEYPOINTS}, "an embedding of keypoints"),
    ],
)
def test_a_model_that_computes_otherwise_is_not_exported(change, said, tmp_path):
    """Its tensors would fit into the format, and mean something else there."""
    cfg = slice_()
    small = {"encoder": {"depth": 1}, "predictor": {"depth": 1, "mlp": 8}, "projector": 8}
    model = parse(Model, merge(merge(cfg.model.model_dump(mode="json"), small), change), "test")
    path = tmp_path / "epoch_01.safetensors"
    checkpoint.save(
        path, checkpoint.build(model, "none", 28, 10, 0), cfg.model_copy(update={"model": model}), 28, 1, {}
    )
    with pytest.raises(UserError, match=f"the released format has no place for {said}; this model cannot"):
        released.run_export(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_the_format_cannot_hold_is_not_exported(trained, tmp_path):
    with pytest.raises(UserError, match="no place for the temporal head 'mrn', frames normalised with the data's own"):
        released.run_export(trained / "tdjepa/epoch_02.safetensors", tmp_path)
    assert not list(tmp_path.iterdir())
