"""The location of the state directory (G-2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from interlock.config.config_error import ConfigError

OURS = frozenset({"interlock.toml", "gateway.lock", "gateway.key", "owner.key", "ledger.db", "up.lock",
                  "cursors.json"})
"""A directory that has one of these is a state directory."""
PLAIN = frozenset({"agents", "audit", "cluster", "logs", "objects", "runner", "lost+found", ".DS_Store"})
"""Further entries of a state directory, and the only ones of a freshly prepared directory: a container's volume."""


def state_directory(
    chosen: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ, *, make: bool = True
) -> Path:
    """Return the state directory: `--state`, `$INTERLOCK_STATE`, otherwise the platform's own; with `make` it is
    created, with mode 0700, if it does not exist (G-2).

    A directory that others may read is closed to them if it is a state directory or empty; any other, such as `/`,
    keeps its mode. Raises ConfigError for that, for a file, and for a directory that anyone may write to.
    """
    named = chosen or environment.get("INTERLOCK_STATE")
    path = Path(named) if named else platformdirs.user_state_path("interlock", appauthor=False)
    path = path.expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError([f"{path}: the state directory is a file. Name another one with --state."])
    if make:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not path.exists():
        return path
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX:
        raise ConfigError([f"{path}: everybody may write there. Name a directory of your own with --state."])
    if mode & 0o077:
        held = {entry.name for entry in path.iterdir()}
        if held - PLAIN and not held & OURS:
            raise ConfigError([f"{path}: others may look into it, and it holds other things than a state directory. "
                               "Name an empty one with --state, or close it yourself: chmod 700"])
        path.chmod(0o700)
    return path
