"""Messages from chats, hooks and cron: their session key, and when it moves on."""
