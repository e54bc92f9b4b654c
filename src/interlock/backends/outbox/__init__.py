"""The runner's outbox on disk."""
