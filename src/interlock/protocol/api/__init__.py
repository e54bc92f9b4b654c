"""The API as data: what each operation is, in one module for each part of it; `table` has them all."""
