"""A session's entry, and `sessions.json`, the editable view of all entries."""
