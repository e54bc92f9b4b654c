"""Long transcripts, and many rows of sessions: opening, context, appends, lists (`transcripts`)."""
