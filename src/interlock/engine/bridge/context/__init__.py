"""The context of a lane's session: its transcript, its size, its compaction."""
