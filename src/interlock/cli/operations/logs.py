"""`interlock logs`: the last lines that `interlock up` logged about its gateway and its runner (Y-8)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import LOGS, NOWHERE_ON_HOST, HereOnHost
from interlock.cli.display.terminal import one_line, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble, usage

LINES_SHOWN = 40
TAIL_BYTES = 1 << 20
"""Bytes at the end of a file that are searched for its last lines."""
LOOK_AGAIN_S = 0.25


def logs(
    part: str | None = None,
    /,
    *,
    lines: Annotated[int, Parameter(help=f"The number of lines of each log (default: {LINES_SHOWN}).")] = LINES_SHOWN,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], help="Follow new lines, until Ctrl-C.")] = False,
    where: HereOnHost = NOWHERE_ON_HOST,
) -> int:
    """Show the last lines of the logs of `interlock up`.

    Parameters
    ----------
    part
        gateway, runner or another log's name (default: all).
    """
    if lines < 1:
        raise usage("--lines is a number of lines, 1 or more.")
    found = _files(where.directory() / LOGS, part)
    ends: dict[Path, int] = {}
    for path in found:
        if len(found) > 1:
            say(f"── {path.stem} · {path}", "dim")
        ends[path] = _show_last(path, lines)
    if follow:
        _follow(ends, time.sleep, several=len(found) > 1)
    return ExitStatus.DONE


def _files(directory: Path, part: str | None) -> list[Path]:
    there = sorted(path for path in directory.glob("*.log") if path.is_file()) if directory.is_dir() else []
    if not there:
        raise Trouble("NotFound", f"There are no logs in {directory}.", "`interlock up` writes them; parts that run by "
                      "themselves log to standard error.")
    chosen = [path for path in there if part in (None, path.stem)]
    if not chosen:
        raise Trouble("NotFound", f"There is no log {one_line(str(part))!r} in {directory}.",
                      f"Name one of: {', '.join(path.stem for path in there)}.")
    return chosen


def _show_last(path: Path, count: int) -> int:
    """Print the last lines of a file; returns the offset of its end."""
    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        file.seek(max(0, end - TAIL_BYTES))
        body = file.read(min(end, TAIL_BYTES))
    for line in body.decode(errors="replace").splitlines()[-count:]:
        result(line)
    return end


def _follow(ends: dict[Path, int], rest: Callable[[float], None], *, several: bool) -> None:
    """Print additions to the files. A file that became shorter is read from its beginning."""
    while True:
        for path, end in list(ends.items()):
            for line, behind in _added(path, end):
                ends[path] = behind
                result(f"{path.stem}: {line}" if several else line)
        rest(LOOK_AGAIN_S)


def _added(path: Path, end: int) -> Iterator[tuple[str, int]]:
    """Yield each complete line after `end`, with the offset of its end."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            end = 0 if size < end else end
            file.seek(end)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                yield line.decode(errors="replace").rstrip("\n"), end
    except FileNotFoundError:
        return
