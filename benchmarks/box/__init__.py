"""Costs of a box: at an agent's start, in a build, for staged changes, in memory (`box`)."""
