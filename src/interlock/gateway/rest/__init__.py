"""The REST API (racp): one typed route table, guarded at the door, with every refusal as problem+json."""
