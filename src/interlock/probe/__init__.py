"""Checking whether an agent asks before its tools (H-10): it is run against the model stand-in, and watched."""
