"""Doors: protocols by which other programs reach the gateway, each a client of its public API."""
