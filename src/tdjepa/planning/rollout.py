"""The planner's rollout: what `WorldModel.rollout` computes, for many candidates of one start, without the waste.

All savings are exact up to rounding. The action modulation is computed once per candidate and step, not once per window.
While the history is still growing, keys and values are kept. In the last block and in the projector only the newest token is
computed, because nothing reads the others. Batch norm in eval mode is a linear map and is folded into its neighbour, the
"1 +" of the scales into a bias. With a few dozen candidates, a third of the time is spent between the matrix products, so
arrays are flat (rows, width), modules are unpacked once, and the candidates of one step lie side by side.
"""

import torch
import torch.nn.functional as F

from tdjepa.model.predictor import Block
from tdjepa.model.world_model import WorldModel


class Rollout:
    """A model's weights, laid out for planning; valid until the weights change."""

    @torch.no_grad()
    def __init__(self, model: WorldModel):
        predictor, encoder = model.predictor, model.action_encoder
        self.history, self.enter, self.position = predictor.history, predictor.enter, predictor.position[0]
        smooth, first, _, last = encoder.smooth, *encoder.embed  # nothing lies between the first two: one map
        self.act = (first.weight @ smooth.weight, first.weight @ smooth.bias + first.bias, last.weight, last.bias)
        self.modulation = _modulation(predictor.blocks)
        self.blocks = [_weights(block) for block in predictor.blocks]
        self.leave, norm, self.residual = _folded(model.pred_projector), predictor.norm, model.residual
        self.norm = (norm.weight, norm.bias, norm.eps)
        # the norm before each modulation has no weights, but torch's layer norm is a third faster with some
        self.plain = (torch.ones_like(norm.weight), torch.zeros_like(norm.bias), 1e-6)

    def __call__(self, z: torch.Tensor, past: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """z (h, D) latents of the real frames, past (h - 1, block) z-scored actions between them, candidates (N, H, block).
        -> predicted latents (H, N, D); the last block executed is the last candidate action."""
        n, depth = len(candidates), len(self.blocks)
        actions = torch.cat([past[:, None].expand(-1, n, -1), candidates.transpose(0, 1)])  # (T, N, block)
        steps, modulation = len(actions), self._modulate(actions.flatten(0, 1))  # (T * N, depth * 6, width)
        tokens = list(self.enter(z)[:, None].expand(-1, n, -1))
        memory = [None] * depth  # keys and values of the tokens of the window so far
        out, seen = [], 0
        for end in range(len(z), steps + 1):
            begin = max(0, end - self.history)
            if begin > 0:  # the window slides: every token gets a new position, nothing can be reused
                memory, seen = [None] * depth, begin
            x = torch.stack(tokens[seen:end]) if end - seen > 1 else tokens[seen][None]
            x = (x + self.position[seen - begin : end - begin, None]).flatten(0, 1)  # (t * N, width)
            of_now = modulation[seen * n : end * n].unbind(1)
            for i, weights in enumerate(self.blocks):
                of_block = of_now[6 * i : 6 * i + 6]
                x, memory[i] = _block(weights, self.plain, of_block, x, memory[i], n, newest=i + 1 == depth)
            seen = end
            after = self._leave(x)
            out.append(after + (out[-1] if out else z[-1]) if self.residual else after)
            if end < steps:
                tokens.append(self.enter(out[-1]))
        return torch.stack(out)

    def _modulate(self, actions):
        """Rows of action blocks -> (rows, depth * 6, width): per block (shift, 1 + scale, gate) of attention and of MLP"""
        first, first_bias, last, last_bias = self.act
        c = F.linear(F.silu(F.linear(actions, first, first_bias)), last, last_bias)
        return F.linear(F.silu(c), *self.modulation).unflatten(1, (-1, self.position.shape[1]))

    def _leave(self, x):
        """(N, width) -> latents (N, D), or with a residual predictor their changes"""
        first, first_bias, last, last_bias = self.leave
        y = F.layer_norm(x, x.shape[1:], *self.norm)
        return F.linear(F.gelu(F.linear(y, first, first_bias)), last, last_bias)


def _modulation(blocks) -> tuple[torch.Tensor, torch.Tensor]:
    """The maps of shift, scale, gate, shift, scale, gate of all blocks as one, with x * (1 + scale) in mind."""
    layers = [block.modulation[1] for block in blocks]
    biases = torch.stack([layer.bias.unflatten(0, (6, -1)) for layer in layers])  # (depth, 6, width)
    biases[:, [1, 4]] += 1
    return torch.cat([layer.weight for layer in layers]), biases.flatten()


def _weights(block: Block) -> tuple:
    """What `_block` reads, as plain tensors; the scale of the attention's scores goes into the queries."""
    inner = block.qkv.out_features // 3
    query, key_value = block.qkv.weight.split([inner, 2 * inner])
    norms = [(norm.weight, norm.bias, norm.eps) for norm in (block.attention_norm, block.mlp_norm)]
    maps = [(layer.weight, layer.bias) for layer in (block.out, block.mlp[0], block.mlp[3])]
    return *norms, query * (inner // block.heads) ** -0.5, key_value, block.heads, *maps


def _folded(projector) -> tuple:
    """The projector's two layers as (weight, bias, weight, bias), the batch norm folded into the first."""
    first, batch_norm, _, last = projector
    scale = batch_norm.weight / (batch_norm.running_var + batch_norm.eps).sqrt()
    bias = (first.bias - batch_norm.running_mean) * scale + batch_norm.bias
    return first.weight * scale[:, None], bias, last.weight, last.bias


def _block(weights, plain, modulation, x, memory, n: int, newest: bool):
    """New tokens x (t * N, width) of the window through one block; with `newest`, only the last one comes out.
    `memory` holds keys and values of the window's earlier tokens. -> x, memory"""
    norm1, norm2, query, key_value, heads, leave, widen, narrow = weights
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation
    y = _norm(norm1, plain, x, shift1, scale1)
    new = F.linear(y, key_value)  # (t * N, 2 * inner)
    memory = new if memory is None else torch.cat([memory, new])
    if newest and len(x) > n:
        x, y, gate1, shift2, scale2, gate2 = (m[-n:] for m in (x, y, gate1, shift2, scale2, gate2))
    keys, values = memory.unflatten(0, (-1, n)).unflatten(-1, (2, heads, -1)).unbind(2)  # (window, N, heads, D)
    alone = len(memory) == len(y)  # the window's first token attends to itself and needs no query
    attended = [values[0].flatten(1)] if alone else []
    if len(y) > n or not alone:
        queries = F.linear(y[n:] if alone else y, query).view(-1, *keys.shape[1:])
        first = len(keys) - len(queries) + 1
        attended += [_attend(q, keys[: first + i], values[: first + i]) for i, q in enumerate(queries)]
    attended = torch.cat(attended) if len(attended) > 1 else attended[0]
    x = torch.addcmul(x, gate1, F.linear(attended, *leave))
    hidden = F.gelu(F.linear(_norm(norm2, plain, x, shift2, scale2), *widen))
    return torch.addcmul(x, gate2, F.linear(hidden, *narrow)), memory


def _norm(norm, plain, x, shift, scale):
    """A layer norm without weights of its own, shift and scale, then the block's own norm."""
    x = torch.addcmul(shift, F.layer_norm(x, x.shape[1:], *plain), scale)
    return F.layer_norm(x, x.shape[1:], *norm)


def _attend(q, keys, values):
    """A query (N, heads, D) against at most `history` keys (t, N, heads, D), too few for a fused kernel. -> (N, inner)"""
    weights = (q * keys).sum(-1, keepdim=True).softmax(0)  # (t, N, heads, 1)
    return (weights * values).sum(0).flatten(1)
