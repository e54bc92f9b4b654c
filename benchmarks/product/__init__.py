"""The product itself: how much of its source a change has to know, and what it weighs at rest (`house`, `weight`)."""
