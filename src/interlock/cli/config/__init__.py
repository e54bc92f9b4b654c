"""The state directory and its config, and the verbs that check, show and reload it."""
