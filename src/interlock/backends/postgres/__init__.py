"""The stores of a cluster: ledger, transcripts and leases on PostgreSQL."""
