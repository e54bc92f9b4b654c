"""Several gateways on one ledger: who is there, what they send each other, and what one asks of another."""
