"""A session's workspace: where it may be, its changes, its repository."""
