"""What a subject consists of: paths, commands, URLs, as policy compares them (H-6, H-7)."""
