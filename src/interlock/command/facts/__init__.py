"""The parts of a subject: paths, commands, URLs, in the form that policy compares (H-6, H-7)."""
