"""The composition root: the one room that names concrete backends. A process imports only the half that it is."""
