"""The audit log and the ledger against an attacker with write access: each edit is found, each change is recorded, and
third-party tools read the log (A1 to A3, H-5)."""
