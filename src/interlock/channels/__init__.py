"""Ways to people: what asks an approver where they are (P-8)."""
