"""The ledger on SQLite (apsw)."""
