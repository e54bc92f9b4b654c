"""A pipeline's job: one prompt, its log lines, its summary and its proof (O-10)."""
