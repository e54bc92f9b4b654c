"""Slack by Socket Mode, which needs no public URL: an outgoing connection receives messages and presses (O-12)."""
