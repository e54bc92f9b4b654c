"""The one place where a session's turns and a command's life meet (C-8). Pure: decisions come out as writes."""
