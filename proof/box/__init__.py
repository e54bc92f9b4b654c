"""A hostile program inside the box: every known way to a hidden key, and every known way to start a held program
(H-15, H-16, H-20)."""
