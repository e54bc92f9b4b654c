"""Viewers of a stream: pages from the ledger, then live events."""
