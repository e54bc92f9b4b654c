"""One turn: the frames that it writes, its tool calls and permission requests, its end."""
