"""Interlock: coding agents under command, approval and audit, with nothing lost when a part dies."""

__version__ = "0.1.0"
