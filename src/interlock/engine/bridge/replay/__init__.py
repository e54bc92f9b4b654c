"""A log of a lane's inputs, recorded and replayed."""
