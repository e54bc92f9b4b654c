"""The handlers of the operations that `protocol.api` declares."""
