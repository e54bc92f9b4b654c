"""The runner's links to its gateways: frames out of the outbox, control frames in."""
