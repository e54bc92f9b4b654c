"""The Agent Client Protocol over WebSocket, for clients on other machines and in pages (O-7)."""
