"""One training step of tdjepa, ours against the plain way: the same weights, the same windows, one thread, in turn.

    tdjepa bench train [--size paper]      desk size, batch 32; paper: 224 px and 18 M parameters, batch 2

Plain means: the library's HDF5Dataset in torch's DataLoader, frames as (N, 3, H, W) normalised beforehand, timm's ViT, which
takes every token through every block, SIGReg as the formula, AdamW and clipping as torch gives them. Both sides take every
step from the same weights; `loss_difference` is the largest relative one. `share` is GFLOP of our step (matrix products and
attention, counted by torch) / our seconds / the measured fp32 matmul peak of one thread.
At paper size the losses differ by 2e-4, because batch norm magnifies the rounding of nearly equal CLS tokens.
"""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

from tdjepa.base import torchvision_shim
from tdjepa.base.allocator import keep_memory
from tdjepa.base.errors import UserError
from tdjepa.base.streams import seed_of
from tdjepa.config.load import load
from tdjepa.config.slices import TrainSlice, train_slice
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.model.encoder import Encoder
from tdjepa.model.normalisation import set_normalisation
from tdjepa.model.vit import NORM_EPS
from tdjepa.model.world_model import WorldModel, build
from tdjepa.objective import methods, sigreg
from tdjepa.steps.health import latent_health
from tdjepa.tools.bench import data
from tdjepa.tools.bench.timing import cpu_seconds, faster, matmul, operations, peak

# episodes, longest episode, batch, timed steps; a plain step at paper size takes many seconds
SIZES = {"desk": (120, 100, 32, 30), "paper": (6, 60, 2, 3)}


def run(size: str = "desk", file: Path = Path("params.yaml")) -> dict:
    if size not in SIZES:
        raise UserError(f"--size {size}: must be one of {', '.join(SIZES)}")
    keep_memory()  # as in `tdjepa train`; both sides gain
    torch.set_num_threads(1)
    episodes, longest, batch, steps = SIZES[size]
    p = load(file, size)
    cfg = train_slice(p, "two_room", "tdjepa", p.train_seeds[0])
    window, frameskip, image_size = cfg.method.window, cfg.frameskip, p.collect.two_room.image_size
    with tempfile.TemporaryDirectory() as folder:
        span = window * frameskip  # the library reads the actions after the last frame too
        path = data.two_room(Path(folder, "episodes.h5"), episodes, span, image_size, longest)
        store, library = Store(path), data.dataset(path, window, frameskip)
        # the same windows on both sides, in the same order
        order = np.random.default_rng(0).choice(len(library), (steps + 2) * batch, replace=True)
        first = np.array([store.offset[e] + start for e, start in library.clip_indices])[order].reshape(-1, batch)
        loader = iter(DataLoader(library, batch, sampler=order.tolist()))

        sides = []
        for fused in (True, None):
            model = build(cfg.model, cfg.method.head, image_size, frameskip * store.action.shape[1], cfg.seed)
            set_normalisation(model, cfg, store, np.arange(store.episodes))
            decay = cfg.train.weight_decay
            sides.append((model.train(), torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=decay, fused=fused)))
        plain, losses = PlainWay(sides[1][0]), np.zeros((2, steps + 2))

        def ours(k):
            frames, blocks = windows.gather(store.pixels, store.action, first[k], window, frameskip)
            losses[0, k] = step(*sides[0], cfg, torch.from_numpy(frames), torch.from_numpy(blocks), k)

        def reference(k):
            items = next(loader)  # pixels (B, T, 3, H, W), action (B, T, block)
            with plain:
                losses[1, k] = step(*sides[1], cfg, items["pixels"], items["action"][:, :-1], k)

        gflop, product, times = operations(lambda: ours(0)) / 1e9, matmul(), []
        reference(0)
        for k in range(1, steps + 2):
            sides[1][0].load_state_dict(sides[0][0].state_dict())
            times.append([cpu_seconds(ours, k), cpu_seconds(reference, k), cpu_seconds(product)])
        a, b, of_product = np.min(times[1:], 0)
    gflops = peak(of_product) / 1e9
    found = {"loss": float(losses[0, -1]), "reference_loss": float(losses[1, -1])}
    found["loss_difference"] = float(np.max(np.abs(losses[0] - losses[1]) / np.abs(losses[1])))
    found |= {"gflop": round(gflop, 3), "peak_gflops": round(gflops, 1), "share": round(gflop / a / gflops, 3)}
    return faster("train", a, b, size=size, batch=batch, window=window, **found)


def step(model: WorldModel, optimiser, cfg: TrainSlice, frames, blocks, k: int) -> float:
    """What `tdjepa train` does in a step, once the windows are there."""
    torch.manual_seed(seed_of(cfg.seed, "dropout", k))
    optimiser.zero_grad(set_to_none=True)
    loss, _, z = methods.objective(model, cfg.method, frames, blocks, cfg.seed, k, epoch=1)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.train.clip)
    optimiser.step()
    latent_health(z)
    return float(loss.detach())


def timms(encoder: Encoder):
    """timm's own ViT with the parameters of this encoder. (N, C, h, w) -> (N, width), or (N, P, width) of all tokens"""
    torchvision_shim.ensure()
    from timm.models.vision_transformer import VisionTransformer

    ours = encoder.vit
    (width, channels, patch, _), cls = ours.patch_embed.proj.weight.shape, ours.cls_token is not None
    image = {"img_size": round(ours.patches**0.5) * patch, "patch_size": patch, "in_chans": channels}
    shape = {"embed_dim": width, "depth": len(ours.blocks), "num_heads": ours.blocks[0].attn.heads, "num_classes": 0}
    readout = {"class_token": cls, "global_pool": "token" if cls else ""}
    vit = VisionTransformer(**image, **shape, **readout, norm_layer=partial(torch.nn.LayerNorm, eps=NORM_EPS))
    vit.load_state_dict(ours.state_dict(keep_vars=True), strict=True, assign=True)  # shared, not copied
    return vit


class PlainWay:
    """A context in which the model encodes and rolls out, and SIGReg is computed, as the papers write them."""

    def __init__(self, model: WorldModel):
        self.model, self.fast, self.vit = model, methods.sigreg, timms(model.encoder)

    def __enter__(self):
        self.model.encode, self.model.rollout, methods.sigreg = self.encode, self.rollout, sigreg.plain

    def __exit__(self, *error):
        del self.model.encode, self.model.rollout  # the class's own again
        methods.sigreg = self.fast

    def encode(self, frames):
        """(..., 3, H, W) uint8 -> (..., latent)"""
        m, x = self.model, frames.flatten(0, -4).float() / 255
        x = (x - m.pixel_mean.view(3, 1, 1) / 255) / (m.pixel_std.view(3, 1, 1) / 255)
        if m.pixel_mix is not None:
            x = torch.einsum("nchw,cd->ndhw", x, m.pixel_mix)
        x = self.vit(m.encoder.stem(x))  # (N, width), or (N, P, width) if all tokens are read
        return m.projector(x.flatten(1)).view(*frames.shape[:-3], -1)

    def rollout(self, z, c, first=None):
        """Step after step, each a prediction from the last `history` latents and their actions."""
        latents = list(z.unbind(1))
        for end in range(z.shape[1], c.shape[1] + 1):
            begin = max(0, end - self.model.predictor.history)
            latents.append(self.model.predict(torch.stack(latents[begin:], 1), c[:, begin:end])[:, -1])
        return torch.stack(latents[z.shape[1] :], 1)
