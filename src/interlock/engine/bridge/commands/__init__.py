"""Commands of a lane: accepted, dispatched, paused, cancelled, ended, and their budgets."""
