"""A transcript: its lines, its tree, its repair, its forms for export."""
