"""A2A 1.0 beside REST: each agent is an A2A server, a context is a session, a task is a command (O-9)."""

BASE = "/a2a/"
"""Everything below this path is A2A's."""
