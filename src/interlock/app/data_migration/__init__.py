"""Moving a ledger and its transcripts between a state directory and PostgreSQL, either way: all of it or nothing."""
