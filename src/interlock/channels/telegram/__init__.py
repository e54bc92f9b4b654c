"""Telegram in both directions, by its Bot API (O-13)."""
