"""A stand-in for Telegram's Bot API on loopback: people send, press and read messages here, and the bot sends its
requests here."""
