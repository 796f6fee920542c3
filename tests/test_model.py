"""The model: shortcuts equal the plain computation, weights come from their seed alone."""

import numpy as np
import pytest
import torch

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse
from tdjepa.config.records.model import Model
from tdjepa.model import vit
from tdjepa.model.encoder import distinct, patches
from tdjepa.model.world_model import build
from tdjepa.planning.rollout import Rollout
from tdjepa.tools.bench.plan import awake
from tdjepa.tools.bench.train import PlainWay, timms

LATENT = load(ROOT / "params.yaml", "desk").model.latent


def small(**changes):
    """A model of desk size with some parameters changed, in eval mode: a batch norm would magnify rounding."""
    cfg = merge(load(ROOT / "params.yaml", "desk").model.model_dump(mode="json"), changes)
    return build(parse(Model, cfg, "test"), "mrn", 64, 10, seed=0).eval()


def stemmed(stem, **changes):
    return {"encoder": {"stem": stem, "patch": 16 >> len(stem), **changes}}


@pytest.mark.parametrize("readout", ["cls", "tokens"])
@pytest.mark.parametrize("stem", [[], [8, 12]])
def test_the_encoder_equals_timms_own(stem, readout):
    model, x = small(**stemmed(stem, readout=readout, depth=2)), torch.randn(5, 64, 64, 3)
    theirs, cut = timms(model.encoder), model.encoder.stem(x.permute(0, 3, 1, 2))
    plain = theirs(cut) if readout == "cls" else theirs.forward_features(cut).flatten(1)  # (5, 16, 96), no CLS token
    torch.testing.assert_close(model.encoder(x), plain, atol=2e-6, rtol=1e-5)
    assert model.encode(torch.zeros(2, 3, 64, 64, 3, dtype=torch.uint8)).shape == (2, 3, LATENT)


@pytest.mark.parametrize("stem", [[], [8, 12]])
def test_whitened_frames_are_mixed_before_the_encoder(stem):
    """The mixing may be folded into the patch map, but means the same as mixing the frames."""
    model = small(normalisation="whitened", **stemmed(stem))
    model.pixel_mean.fill_(100.0), model.pixel_std.copy_(torch.tensor([30.0, 40.0, 50.0]))
    model.pixel_mix.copy_(torch.randn(3, 3))
    frames = torch.randint(0, 255, (4, 64, 64, 3), dtype=torch.uint8)
    plain = (frames.float() - model.pixel_mean) / model.pixel_std @ model.pixel_mix
    torch.testing.assert_close(model.encode(frames), model.projector(model.encoder(plain)), atol=1e-4, rtol=1e-4)


def test_gradients_of_the_encoder_equal_timms_own():
    model = small(encoder={"readout": "cls", "depth": 2})
    x, weight, grads, theirs = torch.randn(4, 64, 64, 3), torch.randn(96), [], timms(model.encoder)
    for forward in (model.encoder, lambda x: theirs(x.permute(0, 3, 1, 2))):
        model.zero_grad()
        (forward(x) @ weight).square().sum().backward()
        grads.append([p.grad.clone() for p in model.encoder.vit.parameters()])
    for ours, plain in zip(*grads, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 16, 3, 8), (2, 7, 1, 4), (3, 1, 2, 4)])  # N, tokens, heads, width of a head
def test_attention_of_few_tokens_equals_the_fused_one(shape, monkeypatch):
    n, tokens, heads, d = shape
    attention = vit.Attention(heads * d, heads).double()
    qkv = torch.randn(n, tokens, 3 * heads * d, dtype=torch.float64, requires_grad=True)
    upstream, results = torch.randn(n, tokens, heads * d, dtype=torch.float64), []
    for many in (tokens + 1, tokens):
        monkeypatch.setattr(vit, "MANY", many)
        assert vit.FewTokens.pays(qkv) == (many > tokens)
        out = attention(qkv)
        results.append((out, *torch.autograd.grad(out, (qkv, attention.proj.weight), upstream)))
    for ours, fused in zip(*results, strict=True):
        torch.testing.assert_close(ours, fused, atol=1e-12, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda x: vit.FewTokens.apply(x, heads), qkv[:1].detach().requires_grad_())


def test_attention_of_few_tokens_is_for_training_in_full_precision():
    qkv = torch.randn(2, 16, 24, requires_grad=True)
    assert vit.FewTokens.pays(qkv)
    with torch.no_grad():
        assert not vit.FewTokens.pays(qkv)
    with torch.autocast("cpu", torch.bfloat16):
        assert not vit.FewTokens.pays(qkv)
    assert not vit.FewTokens.pays(qkv.to("meta"))


def scene(frames: int, size: int) -> torch.Tensor:
    """A fixed background, and a square that moves over it. -> (frames, size, size, 3) uint8"""
    x = torch.randint(0, 256, (size, size, 3), dtype=torch.uint8).repeat(frames, 1, 1, 1)
    for i, frame in enumerate(x):
        frame[3 * i : 3 * i + 5, 2 * i : 2 * i + 5] = 255
    return x


@pytest.mark.parametrize("patch", [16, 14, 5])  # patches of whole 8-byte words, of 4-byte words, of bytes
def test_patches_that_recur_are_told_by_content_and_place(patch):
    x = patches(scene(9, 4 * patch), patch, torch.uint8)
    x[:, 3] = x[:, 7] = x[0, 0]  # the same thing elsewhere
    first, of = distinct(x.numpy())
    flat, place = x.flatten(0, 1), torch.arange(16).repeat(9)
    assert torch.equal(flat[first][of], flat)
    assert torch.equal(place[first][of], place)
    assert len(first) == len({(bytes(row), i) for row, i in zip(flat.numpy(), place.tolist(), strict=True)}) < len(flat)


def test_checksums_that_collide_do_not_make_two_patches_one(monkeypatch):
    class Ones:
        def integers(self, low, high, count, dtype):
            return np.zeros(count, dtype)  # every factor becomes 1: the checksum is a sum

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Ones())
    x = np.zeros((2, 4, 768), np.uint8)
    x[0, 0, 0] = x[1, 0, 8] = 7  # other content, same place, same sum
    first, of = distinct(x)
    assert first.tolist() == of.tolist() == list(range(8))


@pytest.mark.parametrize("depth", [1, 2])
def test_patches_that_recur_give_the_latents_and_gradients_of_all(depth):
    model = small(encoder={"readout": "tokens", "depth": depth})
    frames, upstream, results = scene(6, 64), torch.randn(6, LATENT), []
    for x in (frames, frames.float()):  # floats are taken as they come
        model.zero_grad()
        z = model.encode(x)
        (z * upstream).sum().backward()
        results.append([z, *(p.grad for p in model.encoder.parameters())])
    for shared, plain in zip(*results, strict=True):
        torch.testing.assert_close(shared, plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("frames", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("residual", [False, True])
def test_the_planners_rollout_equals_the_models(frames, depth, residual):
    model = awake(small(predictor={"depth": depth, "residual": residual}))
    z, past, candidates = torch.randn(frames, LATENT), torch.randn(frames - 1, 10), torch.randn(20, 5, 10)
    with torch.no_grad():
        actions = torch.cat([past.expand(20, -1, -1), candidates], 1)
        plain = model.rollout(z.expand(20, -1, -1), model.action_encoder(actions))
        torch.testing.assert_close(Rollout(model)(z, past, candidates).transpose(0, 1), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("real", "actions"), [(1, 1), (1, 2), (1, 3), (1, 6), (2, 2), (3, 2), (3, 3), (3, 7)])
@pytest.mark.parametrize("residual", [False, True])
def test_a_rollout_is_one_prediction_after_the_other(real, actions, residual):
    model = awake(small(predictor={"residual": residual}))
    z, c = torch.randn(4, real, LATENT), torch.randn(4, actions, model.predictor.norm.weight.numel())
    if actions < real:
        with pytest.raises(RuntimeError):  # nothing to predict
            model.rollout(z, c)
        return
    plain = PlainWay(model).rollout(z, c)
    assert plain.shape[1] == actions - real + 1
    torch.testing.assert_close(model.rollout(z, c), plain, atol=1e-6, rtol=1e-5)
    first = model.predict(z, c[:, :real])[:, -1]
    torch.testing.assert_close(model.rollout(z, c, first), plain, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("readout", ["cls", "tokens"])
@pytest.mark.parametrize("stem", [[], [8, 12]])
def test_frames_are_encoded_as_the_plain_way_does(stem, readout):
    """Normalisation inside the patch map and the shortcuts of the last block: same latents, same gradients."""
    model = small(**stemmed(stem, readout=readout))
    model.pixel_mean.copy_(torch.tensor([240.0, 200.0, 130.0]))
    model.pixel_std.copy_(torch.tensor([20.0, 45.0, 60.0]))
    model.pixel_mix.copy_(torch.eye(3) + 0.3 * torch.randn(3, 3))
    frames = torch.randint(0, 256, (2, 3, 64, 64, 3), dtype=torch.uint8)
    upstream, results = torch.randn(2, 3, LATENT), []
    for encode, x in ((model.encode, frames), (PlainWay(model).encode, frames.permute(0, 1, 4, 2, 3))):
        model.zero_grad()
        z = encode(x)
        (z * upstream).sum().backward()
        results.append([z.detach(), *(p.grad.clone() for p in model.encoder.parameters())])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5 * float(plain.abs().max()), rtol=1e-5)


def test_a_residual_predictor_adds_to_the_latents():
    """The same weights predict the next latent, or what is added to this one; at its start the residual is small."""
    plain, residual = (awake(small(predictor={"residual": choice})) for choice in (False, True))
    z, c = torch.randn(50, 3, LATENT), torch.randn(50, 3, plain.predictor.norm.weight.numel())
    change = residual.predict(z, c) - z
    assert 0 < change.std() < 0.2 * plain.predict(z, c).std()
    residual.load_state_dict(plain.state_dict())
    torch.testing.assert_close(residual.predict(z, c), z + plain.predict(z, c))


def keypoints(**changes):
    model = small(encoder={"readout": "keypoints", "keypoints": changes})
    model.pixel_mean.copy_(torch.tensor([240.0, 200.0, 130.0]))
    model.pixel_std.copy_(torch.tensor([20.0, 45.0, 60.0]))
    model.pixel_mix.copy_(torch.eye(3) + 0.3 * torch.randn(3, 3))
    return model


@pytest.mark.parametrize("cell", [4, 8])
@pytest.mark.parametrize(
    "frames", [scene(9, 64), torch.randint(0, 256, (3, 64, 64, 3), dtype=torch.uint8), scene(1, 64)]
)
def test_keypoints_computed_where_frames_differ_are_those_of_whole_frames(frames, cell):
    """With a background, without one, and with one frame: the same embedding and gradients as plain convolutions."""
    model, results = keypoints(cell=cell), []
    upstream = torch.randn(len(frames), model.encoder.out)
    for x in (frames, frames.float()):
        model.zero_grad()
        out = model.encoder(x, model.pixel_mean, model.pixel_std, model.pixel_mix)
        (out * upstream).sum().backward()
        results.append([out.detach(), *(p.grad for name, p in model.encoder.named_parameters() if "heads" not in name)])
    for shared, plain in zip(*results, strict=True):
        torch.testing.assert_close(shared, plain, atol=2e-4 * float(plain.abs().max()), rtol=0)
    assert model.encode(frames).shape == (len(frames), LATENT)


def test_keypoints_follow_what_moves():
    """A sharp map of one colour: its mean is where the square is, its variance grows with the square."""
    model = small(encoder={"readout": "keypoints", "keypoints": {"maps": [1, 1]}}, normalisation="dataset")
    encoder, frames = model.encoder, torch.zeros(3, 64, 64, 3, dtype=torch.uint8)
    for frame, (x, y, half) in zip(frames, ((16, 40, 4), (40, 40, 4), (40, 40, 12)), strict=True):
        frame[y - half : y + half, x - half : x + half] = 255
    with torch.no_grad():
        for part in (encoder.see, encoder.heads[0]):
            part.weight.zero_(), part.bias.zero_()
        encoder.see.weight[0], encoder.heads[0].weight[0, 0] = 1 / 64 / 255 / 3, 50
        x, y, xx, xy, yy = encoder(frames).view(3, 5, 2)[:, :, 0].T
    torch.testing.assert_close((x + 1) * 32, torch.tensor([16.0, 40, 40]), atol=0.5, rtol=0)
    torch.testing.assert_close((y + 1) * 32, torch.tensor([40.0, 40, 40]), atol=0.5, rtol=0)
    assert xx[2] > 3 * xx[1]
    assert yy[2] > 3 * yy[1]
    assert xy.abs().max() < 1e-3


def test_keypoints_need_a_grid():
    for cell, said in (
        (24, "64-px frames are not cut into 24-px cells"),
        (32, "4 x 4 at least"),
        (1, "an even number"),
    ):
        with pytest.raises(UserError, match=rf"model\.encoder\.keypoints\.cell = {cell}: .*{said}"):
            keypoints(cell=cell)


def test_the_predictor_is_causal():
    model = awake(small())
    z, c = torch.randn(2, 3, LATENT), torch.randn(2, 3, model.predictor.norm.weight.numel())
    later = z + torch.tensor([0, 0, 1])[:, None]
    changed = (model.predict(later, c) - model.predict(z, c)).abs().amax((0, 2))
    assert changed[:2].max() == 0 < 1e-4 < changed[2]


def test_weights_depend_on_the_seed_alone(smoke):
    torch.manual_seed(1)
    a = build(smoke.model, "mrn", 32, 10, seed=5).state_dict()
    torch.randn(7)
    b, c = (build(smoke.model, "mrn", 32, 10, seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["predictor.position"], c["predictor.position"])


def test_impossible_shapes_are_named():
    for key, value, said in (("patch", 24, "64-px frames cannot be cut"), ("heads", 5, "must divide")):
        with pytest.raises(UserError, match=rf"model\.encoder\.{key} = {value}: {said}"):
            small(encoder={key: value})
