"""The signed audit log, and checks of rows and ledger against it."""
