"""What a request passes before its handler: guard, authentication, body, idempotency."""
