"""The Agent Client Protocol, as an agent: an editor drives every agent of every host under approval and audit (O-1)."""
