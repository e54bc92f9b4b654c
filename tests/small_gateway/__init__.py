"""A gateway's listener over a small desk, for the tests of the API."""
