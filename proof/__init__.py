"""The full reliability proofs: `python -m proof NAME…` runs real processes, breaks them, counts, and prints."""
