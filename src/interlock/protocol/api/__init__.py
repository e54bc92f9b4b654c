"""The API as data: each operation, in one module per subject; `table` has them all."""
