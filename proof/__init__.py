"""The full reliability proofs: `python -m proof NAME…` runs real processes, breaks them, counts, and prints."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
"""The checkout: where `python -m` finds this package, and the tests and pages that proofs read."""
