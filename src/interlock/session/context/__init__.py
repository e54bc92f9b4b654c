"""What a model is sent of a conversation: its size in tokens, its compaction."""
