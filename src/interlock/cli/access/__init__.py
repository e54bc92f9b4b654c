"""Verbs that say who may ask the gateway: logins, keys, tenants, browser sessions."""
