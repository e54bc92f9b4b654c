"""Several gateways on one ledger: who is there, what they tell each other, and what one asks of another."""
