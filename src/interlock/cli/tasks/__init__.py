"""Verbs that submit a task and follow it until it ends."""
