"""Check that an agent works below the runner's roots, and nowhere else (A-1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class WorkspaceRefused(Exception):
    """The directory is not allowed as a workspace (WORKSPACE_REFUSED); the text is one sentence with the remedy."""


class WorkspaceMissing(WorkspaceRefused):
    """Nothing exists at the directory's place."""


def resolve_workspace(path: str | Path, roots: Sequence[str | Path]) -> Path:
    """Return the directory with its symlinks resolved, once it is known to be inside one of the roots (A-1).

    Containment is checked before existence, so that nothing can be learned of the disk outside the roots. A link inside
    a root that leads out of it is outside. Raises WorkspaceRefused.
    """
    directory = Path(path)
    if not directory.is_absolute():
        raise WorkspaceRefused(f"The workspace {str(path)!r} is not an absolute path; begin it with `/`.")
    try:
        resolved = directory.resolve()
        inside = any(resolved.is_relative_to(Path(root).resolve()) for root in roots)
    except (OSError, RuntimeError, ValueError) as wrong:  # A loop of links, an unreadable step, a NUL byte.
        raise WorkspaceRefused(f"The workspace {str(path)!r} cannot be found ({wrong}); name a directory.") from wrong
    if not inside:
        known = ", ".join(str(root) for root in roots) or "none"
        raise WorkspaceRefused(
            f"The directory {directory} lies outside the runner's roots ({known}); start the runner with "
            f"`--root {directory}`."
        )
    if not resolved.is_dir():
        missing = not resolved.exists()
        raise (WorkspaceMissing if missing else WorkspaceRefused)(
            f"The directory {directory} {'does not exist' if missing else 'is not a directory'}; create it, or add its "
            "real location with `--root DIR`."
        )
    return resolved
