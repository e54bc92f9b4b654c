"""Staged changes: an agent's changes to its workspace land there only after a yes (H-17)."""
