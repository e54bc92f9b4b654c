"""A stand-in for Slack's Web API and Socket Mode on loopback."""
