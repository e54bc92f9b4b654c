"""Verbs on sessions: their entries, files, changes and transcripts."""
