"""Names that rows, statistics and tables share. They decide numbers and are in no slice, so this file is an input of the
jobs that import it (base/source_files.py)."""

LEAKY = "_leaky"  # how the name of a method ends that trained on the evaluated episodes too
MAIN = "main"  # the setting of the published protocol; sweeps have other names
PROTOCOL = (
    "protocol"  # the design that is the paper's: its plan seeds and pairs, one training; ours is also called main
)
FLOORS = ("random", "zero", "replay")  # policies without a training
TRUE_STATE = "true_state"  # the protocol's planner with the scale's predictor on true states: perception is perfect
SIMULATOR = "simulator"  # the protocol's planner with the true simulator as its model: a ceiling, on fewer pairs
