"""Transcripts as files of JSON lines, one for each session (sessions.md section 1)."""
