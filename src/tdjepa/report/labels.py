"""Names for people, in plain text (a table writer turns the few symbols into LaTeX)."""

from tdjepa.config.names import LEAKY, SIMULATOR, TRUE_STATE
from tdjepa.config.params import Params
from tdjepa.evidence import published

NOT_RUN = "not run"
ENVS = {"two_room": "Two-Room", "reacher": "Reacher", "push_t": "Push-T", "cube": "OGB-Cube"}
COSTS = {"d_psi": "d_ψ", "l2": "ℓ₂", "blend": "blend"}  # of the cost matrix
ALL_COSTS = {**COSTS, "hard_gate": "hard gate", "soft_gate": "soft gate", "rc_aux": "RC-aux's", "policy": "none"}
SOLVERS = {"cem": "CEM", "icem": "iCEM", "mppi": "MPPI", "gradient": "gradient descent", "policy": "policy"}
UNTRAINED = {"random": "Random actions", "zero": "Zero action", "replay": "Replay of the log"}
UNTRAINED |= {TRUE_STATE: "True state as latent", SIMULATOR: "True simulator as model"}


def method_label(params: Params, method: str) -> str:
    known = params.methods.get(method)
    return known.label if known else UNTRAINED.get(method) or published.load()["methods"].get(method, method)


def methods(params: Params) -> list[str]:
    """The paper's methods in the order of its main table, then those that only this project runs everywhere."""
    ablations = set(published.load()["ablations"]["rows"]) - {"tdjepa"}
    listed = published.load()["methods"]
    beside = {"lewm": [m for m in params.methods_run if m == "lewm_compute"]}  # what the gain costs, next to LeWM
    known = [*(m for name in listed for m in (name, *beside.get(name, ()))), *params.methods_run]
    return [m for m in dict.fromkeys(known) if m not in ablations and not m.endswith((LEAKY, "_continued"))]


def methods_run(params: Params) -> list[str]:
    """Those of `methods` that are run."""
    return [m for m in methods(params) if m in params.methods_run]


def main_methods(params: Params) -> list[str]:
    """The methods of the paper's main table that are run: what the figures compare, so that lines can be told apart."""
    return [m for m in published.load()["methods"] if m in params.methods_run]


def not_run_row(params: Params, method: str, columns: int) -> list[str]:
    """In place of a table about a method that was not run: how to run it."""
    asked = next((f": snakemake {group}" for group, methods in params.groups.items() if method in methods), "")
    return [NOT_RUN + asked, *["–"] * (columns - 1)]


def cost_text(params: Params, cost: str) -> str:
    return f"blend α = {params.evaluate.blend:g}" if cost == "blend" else ALL_COSTS.get(cost, cost)
