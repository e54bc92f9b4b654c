"""Processes of this host: `up`, gateway, runner, services, bridges and doors."""
