"""PLDM's terms against collapse (VICReg's variance and covariance) and for smooth latent paths."""

import torch.nn.functional as F

from tdjepa.base.transfer import moved

EPS = 1e-4  # under the root, as in PLDM's code


def variance(z, margin: float):
    """Hinge on the standard deviation over the batch, per frame and dimension. z (B, T, D) -> scalar"""
    return F.relu(margin - (z.var(0) + EPS).sqrt()).mean()


def variance_over_time(z, margin: float):
    """The same over the frames of each window: its latents must move. z (B, T, D) -> scalar"""
    return F.relu(margin - (z.var(1) + EPS).sqrt()).mean()


def covariance(z):
    """Mean square of the covariances between two dimensions over the batch, per frame. z (B, T, D) -> scalar"""
    batch, _, dim = z.shape
    centred = (z - z.mean(0)).transpose(0, 1)  # (T, B, D)
    cov = centred.transpose(1, 2) @ centred / (batch - 1)  # (T, D, D)
    apart = cov.square().sum((1, 2)) - cov.diagonal(dim1=1, dim2=2).square().sum(1)
    return (apart / (dim * (dim - 1))).mean()


def similarity(z):
    """Mean square of a latent step: neighbours stay close. z (B, T, D) -> scalar"""
    return F.mse_loss(z[:, 1:], z[:, :-1])


def curvature(z):
    """Temporal straightening: 1 - cosine of the angle between successive latent steps. z (B, T, D) -> scalar in [0, 2]"""
    v = z[:, 1:] - z[:, :-1]
    return (1 - F.cosine_similarity(v[:, 1:], v[:, :-1], dim=-1)).mean()


def progression(z, anchor: int, positive: int, other, margin: float):
    """SD-JEPA's triplet on the progression subspace: nearer, by cosine, to a frame of its own window than to a stranger's.

    z (B, T, k) progression coordinates; `other` (B,) names each window's stranger, taken at the anchor's time. -> scalar
    """
    a = z[:, anchor]
    near = F.cosine_similarity(a, z[:, positive], dim=-1)
    far = F.cosine_similarity(a, a[moved(other, z.device)], dim=-1)
    return F.relu(far - near + margin).mean()
