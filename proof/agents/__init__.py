"""Third-party agents as their users run them: nothing runs that was not allowed, and a held tool call stays held (A-5,
H-14, H-16, H-17)."""
