"""A running average of the weights (`train.average`): what is saved in place of the last step's, which still jumps about."""

import copy

import torch


class Average:
    """A copy of a model that follows it: every weight and every running moment of batch norm moves towards the model's."""

    def __init__(self, model: torch.nn.Module, decay: float):
        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay
        pairs = zip(self.model.state_dict().values(), model.state_dict().values(), strict=True)
        moving, counted = [], []  # batch norm counts its batches
        for pair in pairs:
            (moving if pair[0].is_floating_point() else counted).append(pair)
        self.moving, self.counted = (list(zip(*found, strict=True)) for found in (moving, counted))

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """After optimiser step `step`, counted from 1; early on the average is short, so that the first weights are forgotten."""
        torch._foreach_lerp_(*self.moving, 1 - min(self.decay, step / (step + 10)))
        if self.counted:
            torch._foreach_copy_(*self.counted)
