"""A session's workspace: its allowed places, its changes, its repository."""
