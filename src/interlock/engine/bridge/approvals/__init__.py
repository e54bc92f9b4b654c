"""Approvals of a lane: requests, votes, trust, and tools that ran without a yes."""
