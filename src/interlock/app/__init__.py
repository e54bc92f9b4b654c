"""The composition root: the only package that names concrete backends. A process imports only its own half."""
