"""The box: walls around an agent's process that need none of its goodwill (H-15). Linux only; elsewhere it says so."""
