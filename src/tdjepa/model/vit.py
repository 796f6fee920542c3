"""The modules of a plain ViT (pre-norm) with timm's parameter names; tests hold it equal to timm's ViT up to rounding.

Importing timm's own takes two and a half seconds, in each of the hundreds of jobs of a run.
"""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from tdjepa.config.records.model import Encoder as EncoderParams

NORM_EPS = 1e-12  # of the Hugging Face ViT, which LeWM uses; with timm's 1e-6, released weights give other embeddings
MANY = 32  # from so many tokens on, the fused attention pays: it does not keep their square in memory


class FewTokens(torch.autograd.Function):
    """Attention with its gradient written by hand. It takes half the time of the fused one, which is for long sequences.
    qkv (N, tokens, 3 * width), heads -> (N, tokens, width)"""

    @staticmethod
    def pays(qkv) -> bool:
        """In training on a CPU; autocast would not reach these products."""
        training = torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        return training and qkv.device.type == "cpu" and qkv.shape[1] < MANY

    @staticmethod
    def forward(ctx, qkv, heads):
        n, tokens, width = qkv.shape
        x = qkv.view(n, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)  # (3, N * heads, tokens, d), a copy
        q, k, v = x
        p = torch.bmm(q, k.transpose(1, 2)).mul_(q.shape[-1] ** -0.5).softmax(-1)
        ctx.save_for_backward(x, p)
        return torch.bmm(p, v).view(n, heads, tokens, -1).transpose(1, 2).reshape(n, tokens, width // 3)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, p = ctx.saved_tensors
        (n, tokens, width), (q, k, v), dx = g.shape, x, torch.empty_like(x)
        g = g.reshape(n, tokens, -1, q.shape[-1]).transpose(1, 2).reshape(q.shape)
        torch.bmm(p.transpose(1, 2), g, out=dx[2])
        dp = torch.bmm(g, v.transpose(1, 2))
        # the gradient of softmax, p * (dp - sum of p * dp), in one pass
        ds = torch.ops.aten._softmax_backward_data(dp, p, -1, p.dtype).mul_(q.shape[-1] ** -0.5)
        torch.bmm(ds, k, out=dx[0])
        torch.bmm(ds.transpose(1, 2), q, out=dx[1])
        return dx.view(3, n, -1, tokens, q.shape[-1]).permute(1, 3, 0, 2, 4).reshape(n, tokens, 3 * width), None


def named(**modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(modules))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, qkv):
        """(N, tokens, 3 * width) = self.qkv(x) -> (N, tokens, width)"""
        n, tokens, width = qkv.shape
        if FewTokens.pays(qkv):
            return self.proj(FewTokens.apply(qkv, self.heads))
        q, k, v = qkv.view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, tokens, width // 3))


class Block(nn.Module):
    """(N, tokens, width) -> the same shape; or distinct tokens (U, width) and which of them is where, `of` (N, tokens)"""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, NORM_EPS)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, NORM_EPS)
        self.mlp = named(fc1=nn.Linear(width, 4 * width), act=nn.GELU(), fc2=nn.Linear(4 * width, width))

    def forward(self, x, of=None):
        qkv = self.attn.qkv(self.norm1(x))
        if of is not None:
            x, qkv = F.embedding(of, x), F.embedding(of, qkv)
        x = x + self.attn(qkv)
        return x + self.mlp(self.norm2(x))

    def first_token(self, x):
        """The same for the first token (CLS) only: nothing else is read after the last block. -> (N, width)"""
        n, tokens, width = x.shape
        weight, bias, heads = self.attn.qkv.weight, self.attn.qkv.bias, self.attn.heads
        y = self.norm1(x)
        q = F.linear(y[:, :1], weight[:width], bias[:width]).view(n, 1, heads, -1).transpose(1, 2)
        k, v = F.linear(y, weight[width:], bias[width:]).view(n, tokens, 2, heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, width)
        cls = x[:, 0] + self.attn.proj(out)
        return cls + self.mlp(self.norm2(cls))


class ViT(nn.Module):
    """Patch map, position embeddings, blocks and last norm; the encoder puts them together."""

    def __init__(self, cfg: EncoderParams, image_size: int, channels: int):
        super().__init__()
        width, cls = cfg.width, cfg.readout == "cls"
        self.patches = (image_size // cfg.patch) ** 2
        self.cls_token = nn.Parameter(torch.empty(1, 1, width)) if cls else None
        self.pos_embed = nn.Parameter(torch.empty(1, self.patches + cls, width))
        # the patch map has the shape of a convolution, as timm and released weights have it
        self.patch_embed = named(proj=nn.Conv2d(channels, width, cfg.patch, cfg.patch))
        self.blocks = nn.Sequential(*(Block(width, cfg.heads) for _ in range(cfg.depth)))
        self.norm = nn.LayerNorm(width, NORM_EPS)
        for module in self.modules():  # as the Hugging Face ViT starts
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        if cls:
            nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=cfg.position_std)
