"""Handlers of a lane's inputs, by the source of the input."""
