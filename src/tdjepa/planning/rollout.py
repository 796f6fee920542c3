"""The planner's rollout: what `WorldModel.rollout` computes, for many candidates of one start, without the waste.

All savings are exact up to rounding. The action modulation is computed once per candidate and step, not once per window.
While the history is still growing, tokens keep their position, so their keys and values are kept. In the last block and in
the projector only the newest token is computed, because nothing reads the others; the oldest token attends to itself alone
and needs no query. Batch norm in eval mode is a linear map and is folded into its neighbours, "1 +" of the scales into a
bias. Time comes first in every array, so that the candidates of one step lie side by side in memory.
"""

import torch
import torch.nn.functional as F

from tdjepa.model.predictor import Block
from tdjepa.model.world_model import WorldModel


class Rollout:
    """A model's weights laid out for planning; valid as long as the weights do not change."""

    def __init__(self, model: WorldModel):
        with torch.no_grad():
            self.model, self.history, self.depth = model, model.predictor.history, len(model.predictor.blocks)
            self.blocks = model.predictor.blocks
            self.modulation = [_modulation(block) for block in self.blocks]
            self.leave, self.leave_bias, self.out = _folded(model.predictor.norm, model.pred_projector)

    def __call__(self, z: torch.Tensor, past: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """z (h, D) latents of the real frames, past (h - 1, block) z-scored actions between them, candidates (N, H, block).

        -> predicted latents (H, N, D); the last block executed is the last candidate action.
        """
        n, predictor = len(candidates), self.model.predictor
        actions = torch.cat([past[:, None].expand(-1, n, -1), candidates.transpose(0, 1)])  # (T, N, block)
        modulation = self._modulate(self.model.action_encoder(actions))  # per block six of (T, N, width)
        tokens = [predictor.enter(frame).expand(n, -1) for frame in z]
        memory = [None] * self.depth  # keys and values of the tokens of the window so far
        out, seen = [], 0
        for end in range(len(z), len(actions) + 1):
            begin = max(0, end - self.history)
            if begin > 0:  # the window slides: every token gets a new position, nothing can be reused
                memory, seen = [None] * self.depth, begin
            x = torch.stack(tokens[seen:end]) + predictor.position[0, seen - begin : end - begin, None]  # (t, N, width)
            for i, block in enumerate(self.blocks):
                of_now = [m[seen:end] for m in modulation[i]]
                x, memory[i] = _block(block, of_now, x, memory[i], newest=i + 1 == self.depth)
            seen = end
            y = F.layer_norm(x[-1], x.shape[-1:], eps=predictor.norm.eps)
            out.append(self.out(F.gelu(F.linear(y, self.leave, self.leave_bias))))
            tokens.append(predictor.enter(out[-1]))
        return torch.stack(out)

    def _modulate(self, c):
        """Action embeddings (T, N, E) -> per block (shift, 1 + scale, gate) of attention and MLP, each (T, N, width)"""
        c = F.silu(c)
        return [[F.linear(c, weight, bias) for weight, bias in layers] for layers in self.modulation]


def rollout(model: WorldModel, z: torch.Tensor, past: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """One rollout of `Rollout`, candidates first. -> (N, H, D)"""
    with torch.inference_mode():
        return Rollout(model)(z, past, candidates).transpose(0, 1)


def _modulation(block: Block) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The six maps of shift, scale, gate, shift, scale, gate as (weight, bias), with x * (1 + scale) in mind."""
    layer = block.modulation[1]
    weights, biases = layer.weight.chunk(6), layer.bias.chunk(6)
    return [(w, b + 1 if i in (1, 4) else b) for i, (w, b) in enumerate(zip(weights, biases, strict=True))]


def _folded(norm, projector):
    """The affine part of the last norm and the batch norm, folded into the projector's first layer."""
    first, batch_norm, _, last = projector
    scale = batch_norm.weight / (batch_norm.running_var + batch_norm.eps).sqrt()
    weight = first.weight * scale[:, None]
    bias = (first.bias - batch_norm.running_mean) * scale + batch_norm.bias
    return (weight * norm.weight).contiguous(), bias + weight @ norm.bias, last


def _block(block: Block, modulation, x, memory, newest: bool):
    """New tokens x (t, N, width) of the window through one block; with `newest`, only the last one comes out.

    `memory` holds keys and values of the window's earlier tokens. -> x, memory
    """
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation
    y = block.attention_norm(_modulate(x, shift1, scale1))
    inner = block.qkv.out_features // 3
    keys, values = F.linear(y, block.qkv.weight[inner:]).chunk(2, -1)  # (t, N, inner)
    if memory is not None:
        keys, values = torch.cat([memory[0], keys]), torch.cat([memory[1], values])
    first = len(keys) - 1 if newest else max(len(keys) - len(x), 1)  # the window's first token needs no query
    queries = F.linear(y[first - len(keys) :], block.qkv.weight[:inner]) if len(keys) > first else ()
    attended = [_attend(q, keys[: first + i + 1], values[: first + i + 1], block.heads) for i, q in enumerate(queries)]
    if newest:
        x, gate1, shift2, scale2, gate2 = x[-1:], gate1[-1:], shift2[-1:], scale2[-1:], gate2[-1:]
    if len(attended) < len(x):
        attended.insert(0, values[0])
    attended = torch.stack(attended) if len(attended) > 1 else attended[0][None]
    x = torch.addcmul(x, gate1, block.out(attended))
    hidden = F.gelu(block.mlp[0](block.mlp_norm(_modulate(x, shift2, scale2))))
    return torch.addcmul(x, gate2, block.mlp[3](hidden)), (keys, values)


def _modulate(x, shift, scale):
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=1e-6), scale)


def _attend(q, keys, values, heads):
    """One query (N, inner) against at most `history` keys (t, N, inner): too few for a fused kernel to pay. -> (N, inner)"""
    n, inner = q.shape
    q = (q * (inner // heads) ** -0.5).view(n, heads, -1)
    weights = (q * keys.view(len(keys), n, heads, -1)).sum(-1, keepdim=True).softmax(0)  # (t, N, heads, 1)
    return (weights * values.view(len(keys), n, heads, -1)).sum(0).view(n, inner)
