"""SIGReg (LeJEPA): push the latents of every time step towards an isotropic Gaussian.

The latents are projected on random unit directions. Along each, the empirical characteristic function is compared with
exp(-t^2/2) at a few knots t (Epps-Pulley). `plain` is the formula; `sigreg` gives the same value and gradient about ten
times faster on a CPU. The knots are equally spaced, so cos(kx) and sin(kx) follow by a recurrence from one cosine and one
sine, and the gradient is accumulated in the same pass instead of being recorded by autograd.
"""

from functools import cache

import torch

from tdjepa.base.transfer import moved

T_MAX = 3.0
CACHE = 1 << 16  # projections worked on at a time: small enough for the cache, large enough to outweigh the calls


def directions(dim: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Random unit columns; (dim, count)"""
    a = torch.randn(dim, count, generator=generator)
    return a / a.norm(dim=0)


def subspace_directions(
    dim: int, count: int, subspaces: int, frozen: torch.Generator, generator: torch.Generator
) -> torch.Tensor:
    """Sub-JEPA: unit columns that each lie in one of several random subspaces of dim / subspaces dimensions, which `frozen`
    fixes. An orthonormal basis keeps lengths, so projecting on the subspace first would give the same. (dim, count)"""
    wide = dim // subspaces
    bases = torch.linalg.qr(torch.randn(subspaces, dim, wide, generator=frozen)).Q  # (K, dim, wide)
    a = torch.randn(subspaces, wide, -(-count // subspaces), generator=generator)
    return (bases @ (a / a.norm(dim=1, keepdim=True))).transpose(0, 1).flatten(1)[:, :count]


@cache
def knots(count: int) -> tuple[list[float], list[float], list[float]]:
    """t, exp(-t^2/2) and the quadrature weights (trapezoid over [-3, 3] by symmetry, times that same window)."""
    t = torch.linspace(0, T_MAX, count)
    phi = torch.exp(-t.square() / 2)
    weight = torch.full((count,), 2 * T_MAX / (count - 1))
    weight[[0, -1]] /= 2
    return t.tolist(), phi.tolist(), (weight * phi).tolist()


def plain(z: torch.Tensor, a: torch.Tensor, count: int) -> torch.Tensor:
    """The formula as it stands. z (T, B, D), a (D, P) unit directions -> scalar"""
    t, phi, weight = (torch.tensor(v, dtype=z.dtype) for v in knots(count))
    x = (z @ a).unsqueeze(-1) * t  # (T, B, P, knots)
    error = (x.cos().mean(1) - phi).square() + x.sin().mean(1).square()
    return (error @ weight).mean() * z.shape[1]


def sigreg(z: torch.Tensor, a: torch.Tensor, count: int) -> torch.Tensor:
    """The same as `plain`, fast. z (T, B, D), a (D, P) -> scalar"""
    return _Statistic.apply(z.float() @ a, count)


class _Statistic(torch.autograd.Function):
    """Projections x (T, B, P) -> the statistic; value and gradient in one pass over the knots.

    cos((k+1)a) = 2 cos(a) cos(ka) - cos((k-1)a), and the same for sin, so one in-place multiply-add gives the next knot.
    Written as u + v * 2cos(a) * w with v = +-1, it gives the values up to a sign that is known for each k.
    """

    @staticmethod
    def forward(ctx, x, count):
        steps, batch, p = x.shape
        t, phi, weight = knots(count)
        together = min(steps, max(1, CACHE // (batch * p)))  # time steps
        ones = x.new_full((1, batch), 1 / batch)
        buffers = x.new_empty(5, together, batch, p)  # (cos, sin) of the previous knot and of this one; 2 cos(a)
        gradient, total = torch.zeros_like(x), x.new_zeros(())
        knot_weight = moved(torch.tensor(weight[1:], dtype=x.dtype), x.device)
        for g, xi in zip(gradient.split(together), x.split(together), strict=True):
            before, now, double = buffers[:, : len(xi)].split((2, 2, 1))
            double = double[0]
            means = x.new_empty(count - 1, 2, len(xi), 1, p)  # of knots 1..; t = 0 gives nothing: cos 0 = phi(0) = 1
            torch.mul(xi, t[1], out=double)
            before[0].fill_(1.0), before[1].zero_()
            torch.cos(double, out=now[0]), torch.sin(double, out=now[1])
            torch.mul(now[0], 2, out=double)
            sign_before = sign = 1.0
            for k, mean in enumerate(means, start=1):
                torch.matmul(ones, now, out=mean)
                mean[0] -= sign * phi[k]
                # d/dx of (mean cos - phi)^2 + (mean sin)^2; the signs of a mean and of its factor cancel
                slope = 2 * weight[k] * t[k]
                g.addcmul_(now[0], mean[1], value=slope).addcmul_(now[1], mean[0], value=-slope)
                before.addcmul_(double, now, value=-sign_before * sign)
                before, now, sign_before, sign = now, before, sign, -sign_before
            total += knot_weight @ means.square().sum((1, 2, 3, 4))
        ctx.save_for_backward(gradient.div_(steps * p))  # the batch mean and the factor B cancel
        return total * (batch / (steps * p))

    @staticmethod
    def backward(ctx, upstream):
        return ctx.saved_tensors[0] * upstream, None
