"""A cluster on simulated time: gateways, runners, clients and viewers in one process, failures drawn from a seed."""

FULL_COUNTS = {"runners": 10_000, "sessions": 100_000, "viewers": 1_000, "gateways": 10, "steps": 4_000}
FAILURES_A_SECOND = 0.5
"""Of the simulated seconds in which clients act, on average."""
FORWARDS = 300
"""Commands at gateways that do not have the session, of the full run."""
EARLIER = ("takeover",)
"""What `--break` of the simulation puts back as it was once: renewals and takeovers on one connection, lane by lane."""
LANE_BREAKS = ("dedupe", "answers")
"""Engines that `--break` breaks within a lane (`lane_breaks`): the failure must be noticed, and its log shrunk."""
SHRUNK_BELOW = 20
"""Inputs of a shrunk log, at the most, of such a failure."""
