"""Transcripts and rows of sessions as they grow long: opening, context, appends, lists (`transcripts`)."""
