"""Protocols of the ports, each with its guarantees; backends, adapters and tests implement them."""
