"""Tokens of OIDC issuers: their keys, and their principals (K-1)."""
