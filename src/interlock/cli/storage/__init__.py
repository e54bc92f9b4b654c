"""Verbs that move, copy or delete what a gateway stores."""
