"""The paths that a box hides from one agent or write-protects, and the kind of wall (H-15). Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from interlock.protocol.box import WallKind

Kind = WallKind


class Walls(NamedTuple):
    """The walls around one process and all its descendants. Every path is absolute and without symbolic links.

    `hidden` can be neither read nor changed, `read_only` can only be read. With `writable` (not None) everything else
    is read-only, too; `hidden` and `read_only` win over it.
    """

    kind: Kind
    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] | None = None
    programs: bool = False
    """Whether each program that is started behind them is held (H-16)."""
    network: tuple[int, ...] | None = None
    """None for the host's network, else one of its own, in which the runner listens on these loopback ports."""
    staged: tuple[str, str, str] | None = None
    """A workspace that an overlay covers, and the overlay's upper and work directories (H-17)."""

    def fields(self, handover: int = -1) -> list[str]:
        """Encode the walls for the supervisor's order, a letter before each path; nothing without walls. `handover` is
        the descriptor over which the listeners of a network of its own are sent to the runner."""
        if self.kind == "none":
            return []
        return [
            self.kind,
            *(f"h{path}" for path in self.hidden),
            *(f"r{path}" for path in self.read_only),
            *(() if self.network is None else (f"n{handover}:{','.join(map(str, self.network))}",)),
            *(() if self.writable is None else ("w", *(f"w{path}" for path in self.writable))),
            *(("p",) if self.programs else ()),
            *(f"o{path}" for path in self.staged or ()),
        ]


NO_WALLS = Walls("none")


def inside(path: str, others: Iterable[str]) -> str | None:
    """Return the first of `others` that is `path` or contains it, else None."""
    return next((other for other in others if path == other or path.startswith(other.rstrip("/") + "/")), None)


def without_nested(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths once each, in order, without those inside another one."""
    once = tuple(dict.fromkeys(paths))
    return tuple(path for path in once if inside(path, (other for other in once if other != path)) is None)


def with_aliases(paths: Sequence[str], mountinfo: str) -> tuple[str, ...]:
    """Return the paths and every other path at which a bind mount shows the same files, according to
    `/proc/self/mountinfo`: a hidden directory is hidden under all its names."""
    mounts = [_Mount(*parts) for line in mountinfo.splitlines() if (parts := _parts(line)) is not None]
    found = list(paths)
    for path in paths:
        holder = max((one for one in mounts if inside(path, [one.point])), key=lambda one: len(one.point), default=None)
        if holder is None:
            continue
        internal = _join(holder.root, posixpath.relpath(path, holder.point))
        for one in mounts:
            if one.device != holder.device:
                continue
            if inside(internal, [one.root]):
                alias = _join(one.point, posixpath.relpath(internal, one.root))
            elif inside(one.root, [internal]):
                alias = one.point
            else:
                continue
            # Files mounted over the alias are what it shows.
            covering = max((other for other in mounts if inside(alias, [other.point])),
                           key=lambda other: len(other.point))
            if covering.device == holder.device:
                found.append(alias)
    return tuple(dict.fromkeys(found))


def mounted_below(path: str, mountinfo: str) -> str | None:
    """Return a place below `path` with another mount, None if there is none."""
    points = (parts[2] for line in mountinfo.splitlines() if (parts := _parts(line)) is not None)
    return next((point for point in points if point != path and inside(point, [path])), None)


class _Mount(NamedTuple):
    device: str
    root: str
    point: str


def _parts(line: str) -> tuple[str, str, str] | None:
    fields = line.split(" ")
    return (fields[2], _unescaped(fields[3]), _unescaped(fields[4])) if len(fields) > 4 else None


def _unescaped(text: str) -> str:
    """Decode the octal escapes of mountinfo: blank, tab, newline and backslash."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _join(directory: str, relative: str) -> str:
    return posixpath.normpath(posixpath.join(directory, relative))
