"""Full reliability proofs: `python -m proof NAME…` runs real processes, breaks them, counts, and prints.

Areas of proofs: `recovery` (kills, power cuts, full disks), `cluster`, `sessions`, `audit`, `access`, `protocol`,
`policy`, `agents`, `box`, `simulation`, `independent_peers` (both sides written from the published text alone). Their
parts: `processes` (stacks and servers), `faults`, `workload` (clients, agents, the tally of outcomes), `terminal` (a
recorder).
"""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
"""The checkout: where `python -m` finds this package, and the tests and pages that proofs read."""
