"""Approvals at the terminal: the card, the question, the votes."""
