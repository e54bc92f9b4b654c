"""The audit log and the ledger under the hands of somebody with write access: each edit is found, each change is
recorded, and others' tools read the log (A1 to A3, H-5)."""
