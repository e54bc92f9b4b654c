"""An overlay's upper directory as the kernel writes it, for tests that mount none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from interlock.runner.staged.store import Staged


class Overlay:
    """A workspace and what an agent staged over it."""

    def __init__(self, at: Path) -> None:
        self.workspace = at / "workspace"
        self.workspace.mkdir()
        self.staged = Staged(at / "state", "ses_1", str(self.workspace))

    def begin(self, **files: str) -> Staged:
        """Put files into the workspace ("__" is a slash, "_" a dot), and start an agent in it."""
        for name, text in files.items():
            path = self.workspace / named(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.staged.prepare(after_now())
        return self.staged

    def wrote(self, name: str, content: str | bytes, mode: int = 0o644) -> None:
        """The agent wrote a file; the directories above it are copied up as they are."""
        path = self._up(name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)

    def linked(self, name: str, target: str) -> None:
        self._up(name).symlink_to(target)

    def made(self, name: str, mode: int = 0o755, *, opaque: bool = False) -> None:
        path = self._up(name)
        path.mkdir()
        path.chmod(mode)
        if opaque:
            os.setxattr(path, "user.overlay.opaque", b"y")

    def removed(self, name: str) -> None:
        """The agent removed what the workspace has: the kernel leaves a whiteout."""
        path = self._up(name)
        if path.is_dir():
            shutil.rmtree(path)
        os.mknod(path, 0o20000, 0)

    def _up(self, name: str) -> Path:
        path = self.staged.upper
        for part in name.split("/")[:-1]:
            path = path / part
            if not path.exists():
                path.mkdir()
                beneath = self.workspace / path.relative_to(self.staged.upper)
                if beneath.is_dir():
                    path.chmod(beneath.stat().st_mode & 0o7777)
        return path / name.rpartition("/")[2]


def named(name: str) -> str:
    return name.replace("__", "/").replace("_", ".")


def after_now() -> int:
    """A moment, in nanoseconds, later than every change that was made so far."""
    return 2**62


def tree(directory: Path) -> dict[str, str]:
    """All that is below a directory: its mode and its text, its link, or what it is."""
    found: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = path.read_bytes().decode("latin-1")
    return found
