"""Lanes and the code around them: shells, viewers, timers. Decisions are pure; the shells write to the ledger."""
