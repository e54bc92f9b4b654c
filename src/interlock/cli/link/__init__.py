"""Requests to a gateway: its address, the credential, replies and streams."""
