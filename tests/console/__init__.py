"""The console in a real browser; a package, so that its modules share the browser."""
