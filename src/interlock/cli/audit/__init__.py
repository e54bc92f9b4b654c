"""Verbs on the audit log: read, verify, prove, witness."""
