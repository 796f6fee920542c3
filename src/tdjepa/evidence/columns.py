"""Columns of rows that statistics and tables share."""

from tdjepa.config.names import FLOORS, MAIN, SIMULATOR, TRUE_STATE

# Methods without a training: train_seed 0, epoch 0, cost "none"; only the ceilings have a solver.
UNTRAINED = (*FLOORS, TRUE_STATE, SIMULATOR)
# Columns that tell the cells of designs and sweeps apart, with what stands for them where rows do not say:
PLANNER = {
    "design": MAIN,
    "setting": MAIN,
    "refinements": 0,
    "history": 0,
    "candidates": 0,
    "alpha": -1.0,
    "planner": "",
}
CELL = ["env", "method", "solver", "cost", "w", "epoch", *PLANNER]
# Held-out pairs by the goal's distance from the episode's end, as in the paper's Table 6:
SPLITS = ("all", "far", "near")
MEASURES = ("d_psi", "l2")  # what their distance is measured by


def with_planner(rows):
    """Rows (a data frame) with all columns that tell cells of sweeps apart."""
    return rows.assign(**{name: absent for name, absent in PLANNER.items() if name not in rows})
