"""Sessions of one runner: what they store, and which agent they drive."""
