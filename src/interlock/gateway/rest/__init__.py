"""The REST API (racp): one typed route table behind the request guard, with every refusal as problem+json."""
