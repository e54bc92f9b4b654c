"""The builtin agent (B-1): our own loop over a model, for users with an API key and no agent installed.

The runner drives `agent`; it loads `conversation`, and with it pydantic-ai, when a session opens.
"""
