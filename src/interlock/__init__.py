"""Interlock: run coding agents under command, approval and audit, and lose nothing when a link, host or process
dies."""

__version__ = "0.1.0"
