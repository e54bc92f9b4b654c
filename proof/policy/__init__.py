"""Policy and its questions: no hostile command passes a documented rule, and no grant is possible without the full
display (H-4, H-6, H-7, Y-1)."""
