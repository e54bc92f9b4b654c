"""Small protocols that state their guarantees. Backends, adapters and tests meet here."""
