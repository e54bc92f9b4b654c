"""The control plane, a section for each row of its table: command posts, fan-out, the ledger as it grows, the audit log
(`control`)."""
