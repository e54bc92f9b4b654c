"""The connection of a session's turns with the life of its commands (C-8). Pure: decisions are returned as writes."""
