"""Lanes, their shells, viewers and timers: where pure decisions meet the ledger."""
