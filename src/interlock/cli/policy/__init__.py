"""Verbs on policy: rules, presets, replay, budgets, trusted workspaces."""
