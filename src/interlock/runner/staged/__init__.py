"""Staged changes: what an agent wrote in its workspace lands there only after a yes (H-17)."""
