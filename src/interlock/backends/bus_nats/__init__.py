"""The bus between gateways on NATS (core), which stores nothing that could be lost."""
