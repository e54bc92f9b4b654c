"""Who may ask the gateway, how often and how much: credentials and limits."""
