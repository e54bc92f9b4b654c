"""The console in a real browser: long lists, a fast stream, and verification of the audit log (`console`)."""
