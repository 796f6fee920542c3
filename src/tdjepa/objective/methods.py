"""The whole objective on one screen. A method is data (params.yaml, `methods`): which terms, with which weights.

L = L_pred + lambda_roll L_roll + lambda_td L_td + lambda_sig SIGReg          (eq. 11 of the paper)
"""

from tdjepa.objective import prediction, temporal
from tdjepa.objective.sigreg import directions, sigreg
from tdjepa.params import Method
from tdjepa.streams import stream, torch_stream


def objective(model, method: Method, frames, blocks, seed: int, step: int):
    """One batch of windows. frames (B, T, H, W, 3) uint8, blocks (B, T-1, block) raw actions.

    -> loss, {term: its unweighted value}, z (B, T, D)
    """
    terms, history = method.terms, model.predictor.history
    z = model.encode(frames)  # (B, T, D)
    c = model.action_encoder(model.standardise(blocks))  # (B, T-1, E)
    parts = {}
    if terms.one_step:
        parts["one_step"] = prediction.one_step(model.predict, z, c, history, terms.one_step.targets == "detached")
    if terms.rollout:
        parts["rollout"] = prediction.rollout(model.rollout, z, c, history, terms.rollout.horizon)
    if terms.temporal:
        rng, margin = stream(seed, "pairs", step), terms.temporal.margin * (method.window - 1)
        other = temporal.strangers(len(z), rng)
        if terms.temporal.pairs == "all":
            positive, negative = temporal.all_pairs(model.head, z, other, margin)
        else:
            i, j = temporal.draw_pairs(len(z), method.window, rng)
            positive, negative = temporal.one_pair(model.head, z, i, j, other, margin)
        parts["temporal"] = positive + negative if terms.temporal.negatives else positive
    if terms.sigreg:
        a = directions(z.shape[-1], terms.sigreg.directions, torch_stream(seed, "sigreg", step)).to(z.device)
        parts["sigreg"] = sigreg(z.transpose(0, 1), a, terms.sigreg.knots)
    loss = sum(getattr(terms, name).weight * value for name, value in parts.items())
    return loss, {name: value.detach() for name, value in parts.items()}, z
