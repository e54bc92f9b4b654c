"""Lanes of a gateway: read from the ledger, run, committed, and released."""
