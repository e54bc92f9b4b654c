"""The builtin agent (B-1): our own loop over a model, for a user with an API key and no agent installed.

`agent` is what the runner drives; it loads `conversation`, and with it pydantic-ai, when a session opens.
"""
