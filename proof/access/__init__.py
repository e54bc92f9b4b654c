"""Access over the API: tenants, tokens, signed votes, secrets, and hostile requests (S1 to S3, S6 to S8, S10)."""
