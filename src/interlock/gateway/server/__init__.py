"""The listener, its connections, and requests that the gateway sends to itself."""
