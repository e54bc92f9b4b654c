"""Outgoing requests over HTTP, and which addresses they may go to."""
