"""Operations of people on sessions and transcripts."""
