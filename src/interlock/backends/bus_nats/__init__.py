"""The bus between gateways on NATS (core): nothing is kept there, so nothing is lost with it."""
