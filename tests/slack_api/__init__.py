"""A stand-in of Slack's Web API and Socket Mode on loopback."""
