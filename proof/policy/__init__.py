"""Policy and the questions that it raises: no hostile command passes a documented rule, and no yes is possible on what
was not shown (H-4, H-6, H-7, Y-1)."""
