"""The Model Context Protocol over HTTP, for a model's program that starts no process here (O-8)."""
