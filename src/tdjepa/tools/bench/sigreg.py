"""SIGReg, forward and backward, against the plain formula: T=8, B=64, 1024 directions, one thread; seconds per call."""

import torch

from tdjepa.base.streams import torch_stream
from tdjepa.objective.sigreg import directions, plain, sigreg
from tdjepa.tools.bench.timing import best, faster

T, B, D, DIRECTIONS, KNOTS = 8, 64, 192, 1024, 17


def run() -> dict:
    torch.set_num_threads(1)
    a = directions(D, DIRECTIONS, torch_stream(0, "bench"))
    z = torch.randn(T, B, D, generator=torch_stream(1, "bench")).requires_grad_()

    def gradient(function):
        return torch.autograd.grad(function(z, a, KNOTS), z)[0]

    expected = gradient(plain)
    difference = float((gradient(sigreg) - expected).abs().max() / expected.abs().max())
    ours, reference = best(lambda: gradient(sigreg), lambda: gradient(plain))
    return faster("sigreg", ours, reference, relative_gradient_difference=difference)
