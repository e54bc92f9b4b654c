"""A stand-in for Telegram's Bot API on loopback: people write, press and read here, and the bot sends its requests
here."""
