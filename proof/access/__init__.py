"""Who may do what over the API: tenants, tokens, signed votes, secrets, and requests that are meant to do harm
(S1 to S3, S6 to S8)."""
