"""The Model Context Protocol over HTTP, for clients that start no process here (O-8)."""
