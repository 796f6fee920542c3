"""Soft-attention keypoints: small convolutions say how much each place of a frame looks like some thing, a softmax over the
places makes a map of attention of it, and the embedding is where the maps' masses lie and how far they spread.

A place of the first layer sees 2 x 2 cells of the frame, one of the second layer the 3 x 3 places around it. A fixed camera sees
the same background in nearly every frame, and a place depends on what it sees alone. So on a CPU a batch is computed once for
its usual background, and elsewhere only at the places that differ from it. That is exact: cells are compared byte by byte.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from tdjepa.base.errors import UserError
from tdjepa.config.records.model import Encoder as EncoderParams

VOTERS = 8  # frames of a batch that decide what its background is
MOMENTS = 5  # of a map: mean x and y, and the variances and the covariance of both


class Keypoints(nn.Module):
    """(N, H, W, 3) frames, normalised or raw with what normalises them -> (N, out)"""

    def __init__(self, cfg: EncoderParams, image_size: int):
        super().__init__()
        kp = cfg.keypoints
        if misfit := kp.misfit(image_size):
            raise UserError(misfit)
        self.cell, self.places = kp.cell, image_size // kp.cell
        first, second = kp.widths
        self.see = nn.Conv2d(3, first, 2 * kp.cell, kp.cell)  # on frames with half a cell around them
        self.look_around = nn.Conv2d(first, second, 3, padding=1)
        self.heads = nn.ModuleList(nn.Conv2d(width, maps, 1) for width, maps in zip(kp.widths, kp.maps, strict=True))
        for head in self.heads:  # softmax of small numbers sees everything alike
            nn.init.normal_(head.weight, std=kp.sharpness / head.in_channels**0.5)
        at = (torch.arange(self.places) + 0.5) / self.places * 2 - 1
        y, x = torch.meshgrid(at, at, indexing="ij")
        moments = torch.stack([x, y, x * x, x * y, y * y]).flatten(1)  # (5, P)
        self.register_buffer("moments", moments, persistent=False)
        self.out = MOMENTS * sum(kp.maps)

    def forward(self, x, mean=None, std=None, mix=None):
        if x.dtype == torch.uint8 and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            return self.read(*self.shared(x, mean, std, mix))
        if mean is not None:
            x = (x.to(mean.dtype) - mean) * (1 / std)
            x = x if mix is None else x @ mix
        return self.read(*self.plain(x.permute(0, 3, 1, 2)))

    def plain(self, x):
        """(N, 3, H, W), normalised -> how much each place looks like each thing, by layer (N, P, maps)"""
        seen = F.gelu(self.see(F.pad(x, [self.cell // 2] * 4, mode="replicate")))
        around = F.gelu(self.look_around(seen))
        return [head(f).flatten(2).transpose(1, 2) for head, f in zip(self.heads, (seen, around), strict=True)]

    def read(self, *scores):
        """Scores of the places, by layer (N, P, maps) -> moments of the maps (N, out)"""
        x, y, xx, xy, yy = torch.cat([self.moments @ of_layer.softmax(1) for of_layer in scores], 2).unbind(1)
        spread = 4 * torch.stack([xx - x * x, xy - x * y, yy - y * y], 1)
        return torch.cat([x[:, None], y[:, None], spread], 1).flatten(1)

    def shared(self, x, mean, std, mix):
        """What `plain` gives for raw frames (N, H, W, 3), computed where frames differ from their background."""
        p, cells = self.places, self.cells(x)  # (N, p + 1, p + 1, bytes)
        usual = background(cells)  # (p + 1, p + 1, bytes)
        changed = (words(cells) != words(usual)).any(-1)  # (N, p + 1, p + 1)
        changed = changed[:, 1:] | changed[:, :-1]
        changed = changed[:, :, 1:] | changed[:, :, :-1]  # where the first layer sees a change; (N, p, p)
        first, second = Rows(changed), Rows(F.max_pool2d(changed[:, None].float(), 3, 1, 1)[:, 0] > 0)
        # the cells that the rows of the first layer see: those of the background, then those of changed places
        flat = words(torch.cat([usual[None], cells]).flatten(0, 2))
        corner = first.frame * (p + 1) ** 2 + first.place // p * (p + 1) + first.place % p  # the upper left of four
        four = (corner[:, None] + torch.tensor([0, 1, p + 1, p + 2])).flatten()
        seen = flat.index_select(0, four).view(torch.uint8).view(len(corner), -1)  # (U, 4 * bytes)
        seen = F.gelu(F.linear(seen.to(self.see.weight.dtype), *self.folded(mean, std, mix)))
        weight = self.look_around.weight.permute(2, 3, 0, 1).flatten(0, 2)  # (9 * width, first width)
        near = F.gelu(Around.apply(seen, weight, first, second) + self.look_around.bias)
        scores = [
            F.linear(f, head.weight.flatten(1), head.bias) for head, f in zip(self.heads, (seen, near), strict=True)
        ]
        return [Spread.apply(of_layer, rows) for of_layer, rows in zip(scores, (first, second), strict=True)]

    def cells(self, x):
        """Frames with half a cell of their edge repeated around them, cut into cells; -> (N, p + 1, p + 1, bytes)"""
        c, half = self.cell, self.cell // 2
        for side in (1, 2):
            first, last = x.narrow(side, 0, 1), x.narrow(side, x.shape[side] - 1, 1)
            x = torch.cat([first] * half + [x] + [last] * half, side)
        n, h, w, _ = x.shape
        return x.view(n, h // c, c, w // c, c * 3).transpose(2, 3).flatten(3)

    def folded(self, mean, std, mix):
        """Weight and bias of the first layer for raw cells: the normalisation is in them."""
        c, weight, bias = self.cell, self.see.weight, self.see.bias  # (width, 3, 2 c, 2 c)
        if mean is not None:
            by = torch.diag(1 / std) if mix is None else mix / std[:, None]  # raw colour -> normalised
            weight = torch.einsum("rn,wnij->wrij", by, weight)
            bias = bias - weight.sum((2, 3)) @ mean
        weight = weight.unflatten(3, (2, c)).unflatten(2, (2, c))  # (width, 3, 2, c, 2, c)
        return weight.permute(0, 2, 4, 3, 5, 1).flatten(1), bias  # cells one after the other, as in `cells`


class Rows:
    """The places that a layer computes: row by row those of the background, then the changed ones, place after place."""

    def __init__(self, changed):
        """changed (N, p, p)"""
        n, p, _ = changed.shape
        self.places = p * p
        by_place = changed.flatten(1).T  # (P, N)
        place, frame = by_place.nonzero().T
        every = torch.arange(self.places)
        self.place = torch.cat([every, place])  # of each row
        self.frame = torch.cat([torch.zeros_like(every), frame + 1])  # of each row; 0 is the background
        self.count = by_place.sum(1)  # changed rows of each place
        number = by_place.flatten().cumsum(0).view(-1, n) - 1 + self.places
        of_frames = torch.where(by_place, number, every[:, None]).T
        self.row = torch.cat([every[None], of_frames]).view(n + 1, p, p)  # which row holds a place of a frame

    def __len__(self):
        return len(self.place)

    def around(self, other: "Rows"):
        """The rows of `other` at the 3 x 3 places around each of these; one more row is the nothing around a frame. (U, 9)"""
        windows = F.pad(other.row, [1] * 4, value=len(other)).unfold(1, 3, 1).unfold(2, 3, 1)  # (N + 1, p, p, 3, 3)
        return windows.flatten(3).flatten(1, 2)[self.frame, self.place]

    def by_place(self, x):
        """The sum of what changed rows have, by place; (U - P, m) -> (P, m)"""
        return torch.segment_reduce(x, "sum", lengths=self.count, axis=0, unsafe=True)


class Around(torch.autograd.Function):
    """A 3 x 3 convolution: rows of the first layer (U, C), weight (9 * D, C), and which rows both layers have -> (U', D)

    Each row is mapped for its nine neighbours once, and each place adds up what it gets. The gradient of a changed row is
    gathered from its neighbours, all of which are rows of the second layer. What is left over is the background's."""

    @staticmethod
    def forward(ctx, seen, weight, first, second):
        ctx.save_for_backward(seen, weight)
        ctx.rows = first, second
        given = F.linear(torch.cat([seen, seen.new_zeros(1, seen.shape[1])]), weight)  # (U + 1, 9 * D)
        return F.embedding_bag(9 * second.around(first) + torch.arange(9), given.view(9 * len(given), -1), mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (seen, weight), (first, second) = ctx.saved_tensors, ctx.rows
        n, d, p = first.places, g.shape[1], first.row.shape[1]
        # a place is the neighbour 8 - k of its neighbour k; (U, 9)
        to = first.around(second).flip(1)
        g = torch.cat([g, g.new_zeros(1, d)])
        given = torch.empty(len(first), 9 * d, dtype=g.dtype)
        torch.index_select(g, 0, to[n:].flatten(), out=given[n:].view(-1, d))
        of_places = g[:n] + second.by_place(g[n:-1])  # of all frames and the background
        at = F.pad(torch.arange(n).view(p, p), [1] * 4, value=n).unfold(0, 3, 1).unfold(1, 3, 1).reshape(n, 9).flip(1)
        given[:n] = torch.cat([of_places, g[-1:]])[at].flatten(1) - first.by_place(given[n:])
        return given @ weight, given.T @ seen, None, None


class Spread(torch.autograd.Function):
    """Rows (U, m) to the places of all frames -> (N, P, m); indexing, whose own gradient is slow"""

    @staticmethod
    def forward(ctx, x, rows):
        ctx.rows = rows
        return x.index_select(0, rows.row[1:].flatten()).view(len(rows.row) - 1, rows.places, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        rows, n = ctx.rows, ctx.rows.places
        changed = g.reshape(-1, g.shape[-1]).index_select(0, (rows.frame[n:] - 1) * n + rows.place[n:])
        return torch.cat([g.sum(0) - rows.by_place(changed), changed]), None


def words(cells):
    """Bytes as longer words, which compare faster; (..., bytes) -> (..., words)"""
    return cells.view(torch.int64 if cells.shape[-1] % 8 == 0 else torch.int32)


def background(cells):
    """What most frames show in each cell, by the vote of a few of them; (N, p, p, bytes) -> (p, p, bytes)"""
    few = cells[:: max(1, len(cells) // VOTERS)][:VOTERS]  # (V, p, p, bytes)
    agree = (words(few)[:, None] == words(few)[None]).all(-1).sum(1)  # (V, p, p)
    chosen = agree.argmax(0)[None, ..., None].expand(-1, -1, -1, few.shape[-1])
    return few.gather(0, chosen)[0]
