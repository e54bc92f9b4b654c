"""The product itself: how much of its source a change involves, and its memory when idle (`house`, `weight`)."""
