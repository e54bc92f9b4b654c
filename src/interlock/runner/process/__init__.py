"""An agent's process: its start below a supervisor, its streams, its end."""
