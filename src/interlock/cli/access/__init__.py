"""Verbs for access to the gateway: logins, keys, tenants, browser sessions."""
