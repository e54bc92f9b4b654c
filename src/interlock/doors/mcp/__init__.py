"""Tools for a model that commands agents and never approves, by the Model Context Protocol (O-8)."""
