"""A bus within one process: for one gateway alone, and for several in one test."""
