"""Telegram, sending and receiving by its Bot API (O-13)."""
