"""Several gateways on one ledger: membership, notifications and requests between them."""
