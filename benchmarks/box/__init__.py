"""What a box costs: at an agent's start, in a build, for staged changes, in memory (`box`)."""
