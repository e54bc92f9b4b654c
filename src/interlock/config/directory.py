"""Where the state directory lies (G-2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from interlock.config.reading import ConfigError


def state_directory(chosen: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Find the state directory: `--state`, `$INTERLOCK_STATE`, else the platform's own; made with mode 0700 (G-2).

    Raises ConfigError where it is a file, or a directory that is everybody's.
    """
    named = chosen or environment.get("INTERLOCK_STATE")
    path = Path(named) if named else platformdirs.user_state_path("interlock", appauthor=False)
    path = path.expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError([f"{path}: the state directory is a file. Name another one with --state."])
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX:
        raise ConfigError([f"{path}: everybody may write there. Name a directory of your own with --state."])
    if mode & 0o077:
        path.chmod(0o700)
    return path
