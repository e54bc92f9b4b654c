"""Tokens of OIDC issuers: their keys, and who a token stands for (K-1)."""
