"""Moving a ledger and its transcripts between a state directory and PostgreSQL, in either direction, atomically."""
