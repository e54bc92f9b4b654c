"""One session under pressure: repeated commands, votes and cancels that race, timers, resumed and crowded streams,
links that fail, and an agent that writes without end (R1, R6 to R12, S9)."""
