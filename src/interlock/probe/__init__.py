"""Check whether an agent asks before its tools (H-10): run it against the model stand-in, and observe it."""
