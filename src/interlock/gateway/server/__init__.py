"""The listener and its connections."""
