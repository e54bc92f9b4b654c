"""Verbs on agents: which are found, which are offered, and whether they ask before their tools run."""
