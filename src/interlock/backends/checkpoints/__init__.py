"""Sinks for checkpoints."""
