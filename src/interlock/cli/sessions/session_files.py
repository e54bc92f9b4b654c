"""`interlock sessions files` and `interlock sessions save`: the files of a session, and their content."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.app.scratch_directory import EXPORT_PREFIX, new_file
from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.columns import Layout, cut_middle
from interlock.cli.display.terminal import say
from interlock.cli.display.values import ago, size
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import Json
from interlock.cli.verb_answer import FoundRows, ListTable
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.sessions import GET_FILE, LIST_FILES
from interlock.protocol.resources import SessionFile

FILES = ListTable[list[SessionFile]](
    header=("FILE", "NAME", "TYPE", "SIZE", "FOR", "WHEN"),
    rows=lambda found: [[one.transfer_id, one.name, one.media_type, size(one.size), one.purpose, ago(one.created_at)]
                        for one in found],
    layout=Layout(text=("NAME", "TYPE"), extra=("FOR", "TYPE"), drop=("WHEN", "SIZE"), shorten=cut_middle),
    empty="no files travelled in this session")


def files(
    session: Annotated[str, Parameter(name="SESSION", help="An id, a unique beginning, a key, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """List the files that travelled in a session."""
    async def find(link: GatewayLink) -> FoundRows[SessionFile]:
        session_id = (await short_ids.session(link, session)).session_id
        return FoundRows("files", SessionFile, await link.pages(LIST_FILES.at(session_id)))

    return ask_gateway(where, find).print(FILES.show, json=json)


def save(
    session: Annotated[str, Parameter(name="SESSION", help="An id, a unique beginning, a key, or @last.")],
    file: Annotated[str, Parameter(name="FILE", help="A file's id, or a unique beginning of it.")],
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), help="The file to write (default: the file's "
                                                                           "name, here).")]
    = None,
    where: Here = NOWHERE,
) -> int:
    """Save a file of a session."""
    if output is not None and output.exists():
        raise usage(f"{output} is there already.", "Name another place with --output, or remove it.")
    return asyncio.run(_save(session, file, output, where))


async def _save(session: str, prefix: str, output: Path | None, where: Where) -> int:
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, session)).session_id
        found = [one for one in await link.list(LIST_FILES.at(session_id), SessionFile)
                 if one.transfer_id.startswith(prefix)]
        if len(found) != 1:
            raise Trouble("NotFound", f"{'Several files begin' if found else 'No file begins'} with {prefix!r}.",
                          f"List them with: interlock sessions files {session_id}")
        place = output if output is not None else Path(local_name(found[0].name))
        if place.exists():
            raise usage(f"{place} is there already.", "Name another place with --output, or remove it.")
        await _fetch(link, session_id, found[0], place)
    say(f"saved {place} ({found[0].media_type}, {found[0].size} bytes)")
    return ExitStatus.DONE


async def _fetch(link: GatewayLink, session_id: str, file: SessionFile, place: Path) -> None:
    """Write the file aside, check it, then give it its name: a file of that name is always complete. Raises Trouble."""
    digest = hashlib.sha256()
    try:
        with new_file(place, EXPORT_PREFIX, 0o666) as out:
            async for piece in link.download(GET_FILE.at(session_id, file.transfer_id)):
                digest.update(piece)
                out.write(piece)
            if digest.hexdigest() != file.sha256:
                raise Trouble("UpstreamError", f"What came of {file.transfer_id} is not the file.", "Try again.")
    except OSError as error:
        raise usage(f"{place} cannot be written: {error.strerror}.", "Name another place with --output.") from None


def local_name(name: str) -> str:
    """Convert a name that an agent chose to a file name in this directory: no path, not hidden, no control
    characters."""
    base = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in base if letter.isprintable()).lstrip(".")[:200] or "file"
