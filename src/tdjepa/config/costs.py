"""What a planning cost needs beside latents. Decides numbers and is in no slice: an input of the jobs that import it."""

BY_CONTACT = ("hard_gate", "soft_gate")  # costs that read who touches what
WITH_CONTACT = ("push_t",)  # environments where that is known
GIVEN_BY = {  # cost -> the heads that can give it; a cost that is not here needs none
    "d_psi": ("mrn", "symmetric"),
    "blend": ("mrn", "symmetric"),
    "hard_gate": ("mrn", "symmetric"),
    "soft_gate": ("mrn", "symmetric"),
    "rc_aux": ("budget_reachability",),
    "policy": ("action", "timed_action", "value_action", "critic_action"),
}
OWN = "own"  # in a sweep: each of the method's costs
SOLVED_BY = {"policy": "policy"}  # cost -> its solver; every other cost has the protocol's
