"""Backends that keep everything in the process, for tests."""
