"""When an optimiser steps, with how many batches and at which learning rate.

The published batch of Push-T is 4 x 32. There are three readings of what that did (`train.accumulation`):

    mean               as the paper's text has it: the mean of the gradients is clipped, the schedule counts optimiser steps
    sum_slow_schedule  stable-pretraining 0.1.7: the sum of the gradients is clipped. The schedule is laid out over all
                       batches, but moves once per optimiser step: with four batches a warm-up of 1 % takes 4 % of the
                       steps, and the cosine ends at 0.86 of its peak
    none               stable-pretraining of June 2026: every batch is an optimiser step, so there are four times as many
"""

import math

from tdjepa.config.records.model import Train


def batches_per_step(train: Train) -> int:
    """Batches whose gradients make one optimiser step."""
    return 1 if train.accumulation == "none" else train.accumulate


def steps_per_epoch(train: Train, windows: int) -> int:
    """Optimiser steps: those asked for, or every window once, times the step factor (which those asked for hold already)."""
    return train.steps_per_epoch or round(windows // (train.batch * batches_per_step(train)) * train.step_factor)


def divisor(train: Train) -> int:
    """What the sum of the gradients of one step is divided by before it is clipped."""
    return train.accumulate if train.accumulation == "mean" else 1


def stretch(step: int, total: int, anew: int) -> tuple[int, int]:
    """Where a step is in its schedule, and how many steps that has: `anew` is the step that begins a second one (0: none)."""
    return (step, anew) if step < anew else (step - anew, total - anew)


def counted(train: Train, total: int) -> int:
    """The steps that a schedule is laid out over, if `total` are taken."""
    return total * (train.accumulate if train.accumulation == "sum_slow_schedule" else 1)


def warm_up(train: Train, total: int) -> int:
    """Steps with a growing learning rate."""
    return max(1, round(train.warmup * counted(train, total)))


def learning_rate(train: Train, step: int, total: int) -> float:
    """Linear warm-up, then a cosine that ends with the schedule."""
    warm, total = warm_up(train, total), counted(train, total)
    if step < warm:
        return train.lr * (step + 1) / warm
    share = (step - warm) / max(1, total - warm)
    return train.lr * (train.final_lr + (1 - train.final_lr) * 0.5 * (1 + math.cos(math.pi * share)))
