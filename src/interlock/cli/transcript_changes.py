"""`interlock sessions fork|label|branch|import`: what changes a transcript's tree, or begins one (X-6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.options import Json
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_sentence, say
from interlock.cli.transcript_sources import file_size
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.transcripts import BRANCH_TRANSCRIPT, FORK_SESSION, GET_TRANSCRIPT_TREE, LABEL_ENTRY
from interlock.protocol.limits import MAX_IMPORT_BYTES
from interlock.protocol.resources import Session
from interlock.protocol.transcripts import Report
from interlock.sdk.requests import transcripts

Named = Annotated[str, Parameter(name="SESSION", help="An id, a unique beginning, a key, or @last.")]
Entry = Annotated[str, Parameter(name="ENTRY", help="An entry's id, a unique beginning, or its label.")]


class _Node(msgspec.Struct):
    id: str
    label: str | None = None


class _Tree(msgspec.Struct):
    nodes: list[_Node]


class _Begun(msgspec.Struct):
    session: Session
    entries: int
    report: Report | None = None


class _Added(msgspec.Struct):
    entry_id: str
    parent_id: str | None


def fork(session: Named, /, *, at: Annotated[str | None, Parameter(help="The last entry to take along: an id, a unique "
                                             "beginning, or a label; the leaf where none is named.")] = None,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Begin a session with a copy of the path to an entry; the session itself stays as it is."""
    return asyncio.run(_fork(session, at, where, json=json))


def label(session: Named, entry: Entry, text: Annotated[str | None, Parameter(name="LABEL", help="The label.")] = None,
          /, *, none: Annotated[bool, Parameter(name="--none", help="Take the label away.")] = False,
          json: Json = False, where: Here = NOWHERE) -> int:
    """Label an entry, or take its label away."""
    if none == (text is not None):
        raise usage("Give a label, or --none to take it away.", 'See: interlock sessions label --help')
    return asyncio.run(_entry(session, entry, LABEL_ENTRY, {"label": text}, where, json=json))


def branch(session: Named, entry: Entry, /, *, summary: Annotated[str | None, Parameter(help="What is left behind, in "
                                                                  "a few words; the model receives it.")] = None,
           json: Json = False, where: Here = NOWHERE) -> int:
    """Go on from an earlier entry: what comes next hangs below it, and nothing is lost."""
    return asyncio.run(_entry(session, entry, BRANCH_TRANSCRIPT, {"summary": summary}, where, json=json))


def import_(file: Annotated[Path, Parameter(name="FILE", help="A transcript: JSONL of version 1, 2 or 3.")], /, *,
            agent: Annotated[str, Parameter(help="The agent that the session is for.")],
            runner: Annotated[str | None, Parameter(help="The runner: its id, its name or a unique beginning.")]
            = None,
            workspace: Annotated[str | None, Parameter(help="The directory on the runner.")] = None,
            json: Json = False, where: Here = NOWHERE) -> int:
    """Begin a session with a transcript from elsewhere."""
    size = file_size(file)
    if size > MAX_IMPORT_BYTES:
        raise usage(f"{file} is too large to be imported: it has {size} bytes, and at most {MAX_IMPORT_BYTES} are "
                    "taken.", "Fork what matters of it where it was written.")
    return asyncio.run(_import(file, agent, runner, workspace, where, json=json))


async def _fork(named: str, at: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, named)).session_id
        body = {"entry_id": await _entry_id(link, session_id, at)} if at is not None else {}
        raw = await link.send(FORK_SESSION.at(session_id), body)
    _begun(raw, "fork", json=json)
    return ExitStatus.DONE


async def _import(file: Path, agent: str, runner: str | None, workspace: str | None, where: Where, *, json: bool
                  ) -> int:
    async with GatewayLink(where) as link:
        runner_id = await short_ids.runner_id(link, runner) if runner is not None else None
        raw = await link.raw(transcripts.upload(file, agent, runner_id=runner_id, workspace=workspace))
    _begun(raw, "import", json=json)
    return ExitStatus.DONE


async def _entry(named: str, entry: str, operation: Operation[Any], body: dict[str, Any], where: Where, *,
                 json: bool) -> int:
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, named)).session_id
        path = operation.at(session_id)
        entry_id = await _entry_id(link, session_id, entry)
        raw = await link.send(path, {"entry_id": entry_id, **body})
    if json:
        print_json(raw)
        return ExitStatus.DONE
    added = decoded(raw, _Added, path)
    if operation is BRANCH_TRANSCRIPT:
        print_sentence(f"{added.entry_id}: what comes next hangs below {one_line(entry_id)}")
        say("an agent that keeps its own context does not see this; see the how-to on transcripts", "dim")
    elif body["label"] is None:
        print_sentence(f"{one_line(entry_id)} has no label now")
    else:
        print_sentence(f"{one_line(entry_id)} is labelled {one_line(body['label'])}")
    return ExitStatus.DONE


async def _entry_id(link: GatewayLink, session_id: str, text: str) -> str:
    """Find an entry by its id, a unique beginning of it, or its label. Raises Trouble."""
    found = await link.read(GET_TRANSCRIPT_TREE.at(session_id), _Tree)
    exact = [node.id for node in found.nodes if text in (node.id, node.label)]
    hits = exact or [node.id for node in found.nodes if text and node.id.startswith(text)]
    if len(set(hits)) == 1:
        return hits[0]
    if not hits:
        raise Trouble("NotFound", f"The transcript has no entry {text!r}.",
                      f"List them with: interlock sessions tree {session_id} --all")
    raise usage(f"{text!r} names {len(hits)} entries: {', '.join(map(one_line, hits[:5]))}.", "Give more of the id.")


def _begun(raw: bytes, what: str, *, json: bool) -> None:
    if json:
        print_json(raw)
        return
    begun = decoded(raw, _Begun, what)
    if begun.report is not None and not begun.report.sound:
        counts = ", ".join(f"{kind} {count}" for kind, count in begun.report.counts.items())
        say(f"the file had damage, which is mended in the session: {counts}", "bold", "damage")
    print_sentence(f"{begun.session.session_id} · {one_line(begun.session.agent_id)} · {begun.entries} entries")
