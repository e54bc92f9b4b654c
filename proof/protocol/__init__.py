"""Malformed and unexpected messages at each interface: mutated frames in both directions, and every operation of the
REST API driven from its own document (E-1, W-2, S5)."""
