"""Benchmarks: each figure is shown beside a limit that was measured on the same machine in the same run.

`link`, `control_plane`, `cluster`, `storage`, `box`, `acp_door`, `console`, `peers` and `product` each measure
what their name says; `harness` is what they share.
"""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
"""The checkout: where `python -m` finds this package, and the sources that some benchmarks read."""
