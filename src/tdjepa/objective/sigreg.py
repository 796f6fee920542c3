"""SIGReg (LeJEPA): push the latents of every time step towards an isotropic Gaussian.

The latents are projected on random unit directions; along each, the empirical characteristic function is compared with
exp(-t^2/2) at a few knots t (Epps-Pulley). `plain` is the formula; `sigreg` gives the same value and gradient about ten
times faster on a CPU: the knots are equally spaced, so cos(kx) and sin(kx) follow by the angle-addition recurrence from
one cosine and one sine, and the gradient is accumulated in the same pass instead of being recorded by autograd.
"""

import torch

T_MAX = 3.0


def directions(dim: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Random unit columns; (dim, count)"""
    a = torch.randn(dim, count, generator=generator)
    return a / a.norm(dim=0)


def knots(count: int) -> tuple[list[float], list[float], list[float]]:
    """t, exp(-t^2/2) and the quadrature weights (trapezoid over [-3, 3] by symmetry, times that same window)."""
    t = torch.linspace(0, T_MAX, count)
    phi = torch.exp(-t.square() / 2)
    weight = torch.full((count,), 2 * T_MAX / (count - 1))
    weight[[0, -1]] /= 2
    return t.tolist(), phi.tolist(), (weight * phi).tolist()


def plain(z: torch.Tensor, a: torch.Tensor, count: int) -> torch.Tensor:
    """The formula as it stands. z (T, B, D), a (D, P) unit directions -> scalar"""
    t, phi, weight = (torch.tensor(v) for v in knots(count))
    x = (z @ a).unsqueeze(-1) * t  # (T, B, P, knots)
    error = (x.cos().mean(1) - phi).square() + x.sin().mean(1).square()
    return (error @ weight).mean() * z.shape[1]


def sigreg(z: torch.Tensor, a: torch.Tensor, count: int) -> torch.Tensor:
    """The same as `plain`, fast. z (T, B, D), a (D, P) -> scalar"""
    return _Statistic.apply(z.float() @ a, count)


class _Statistic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, count):
        steps, batch, p = x.shape
        t, phi, weight = knots(count)
        want_gradient = ctx.needs_input_grad[0]
        gradient = torch.zeros_like(x) if want_gradient else None
        total = x.new_zeros(())
        for i in range(steps):  # one time step at a time stays in the cache
            angle = x[i] * t[1]
            c1, s1 = angle.cos(), angle.sin()
            c, s = c1, s1
            for k in range(1, count):  # t = 0 contributes nothing: cos 0 = phi(0) = 1, sin 0 = 0
                dc, ds = c.mean(0) - phi[k], s.mean(0)
                total += weight[k] * (dc.square().sum() + ds.square().sum())
                if want_gradient:
                    scale = 2 * weight[k] * t[k]
                    gradient[i].addcmul_(c, ds * scale).addcmul_(s, dc * -scale)
                if k + 1 < count:
                    c, s = torch.addcmul(c * c1, s, s1, value=-1), torch.addcmul(s * c1, c, s1)
        if want_gradient:
            ctx.save_for_backward(gradient.div_(steps * p))  # the batch mean and the factor B cancel
        return total * (batch / (steps * p))

    @staticmethod
    def backward(ctx, upstream):
        return ctx.saved_tensors[0] * upstream, None
