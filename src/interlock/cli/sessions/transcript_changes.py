"""`interlock sessions fork|label|branch|import`: verbs that change a transcript's tree, or begin one (X-6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.terminal import one_line, print_sentence, say
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import Json
from interlock.cli.sessions.transcript_sources import file_size
from interlock.cli.verb_answer import VerbAnswer, answered, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.limits import MAX_IMPORT_BYTES
from interlock.protocol.transcripts import AddedEntry, BegunSession
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import transcripts

Named = Annotated[str, Parameter(name="SESSION", help="An id, a unique beginning, a key, or @last.")]
Entry = Annotated[str, Parameter(name="ENTRY", help="An entry's id, a unique beginning, or its label.")]


def fork(session: Named, /, *, at: Annotated[str | None, Parameter(help="The last entry to copy: an id, a "
                                                                        "unique beginning, or a label (default: the "
                                                                        "leaf).")] = None,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Begin a session with a copy of the path to an entry; the session itself stays as it is."""
    async def request(link: GatewayLink) -> RequestSpec[BegunSession]:
        session_id = (await short_ids.session(link, session)).session_id
        return transcripts.fork(session_id, entry_id=await _entry_id(link, session_id, at) if at is not None else None)

    return print_answer(where, request, _show_begun, json=json)


def label(session: Named, entry: Entry, text: Annotated[str | None, Parameter(name="LABEL", help="The label.")] = None,
          /, *, none: Annotated[bool, Parameter(name="--none", help="Remove the label.")] = False,
          json: Json = False, where: Here = NOWHERE) -> int:
    """Label an entry, or take its label away."""
    if none == (text is not None):
        raise usage("Give a label, or --none to take it away.", 'See: interlock sessions label --help')
    entry_id, answer = _ask_of_entry(where, session, entry, lambda id_, of: transcripts.label(id_, of, text))
    labelled = "has no label now" if text is None else f"is labelled {one_line(text)}"
    return answer.print(lambda _: print_sentence(f"{one_line(entry_id)} {labelled}"), json=json)


def branch(session: Named, entry: Entry, /, *, summary: Annotated[str | None, Parameter(help="A short "
                                                                                             "summary of the abandoned "
                                                                                             "branch, which the model "
                                                                                             "receives.")] = None,
           json: Json = False, where: Here = NOWHERE) -> int:
    """Go on from an earlier entry: what comes next hangs below it, and nothing is lost."""
    entry_id, answer = _ask_of_entry(where, session, entry, lambda id_, of: transcripts.branch(
        id_, of, summary=summary))

    def show(added: AddedEntry) -> None:
        print_sentence(f"{added.entry_id}: what comes next hangs below {one_line(entry_id)}")
        say("an agent that keeps its own context does not see this; see the how-to on transcripts", "dim")

    return answer.print(show, json=json)


def import_(file: Annotated[Path, Parameter(name="FILE", help="A transcript: JSONL of version 1, 2 or 3.")], /, *,
            agent: Annotated[str, Parameter(help="The agent that the session is for.")],
            runner: Annotated[str | None, Parameter(help="The runner: its id, its name or a unique beginning.")]
            = None,
            workspace: Annotated[str | None, Parameter(help="The directory on the runner.")] = None,
            json: Json = False, where: Here = NOWHERE) -> int:
    """Start a session with a transcript from elsewhere."""
    size = file_size(file)
    if size > MAX_IMPORT_BYTES:
        raise usage(f"{file} is too large to be imported: it has {size} bytes, and at most {MAX_IMPORT_BYTES} are "
                    "taken.", "Fork what matters of it where it was written.")
    async def request(link: GatewayLink) -> RequestSpec[BegunSession]:
        runner_id = await short_ids.runner_id(link, runner) if runner is not None else None
        return transcripts.upload(file, agent, runner_id=runner_id, workspace=workspace)

    return print_answer(where, request, _show_begun, json=json, plain=False)


def _ask_of_entry(where: Where, session: str, entry: str, request: Callable[[str, str], RequestSpec[AddedEntry]]
                  ) -> tuple[str, VerbAnswer[AddedEntry]]:
    """Send a request that takes the complete ids of a session and an entry; returns the entry's id and the response.
    Raises Trouble."""
    async def send(link: GatewayLink) -> tuple[str, VerbAnswer[AddedEntry]]:
        session_id = (await short_ids.session(link, session)).session_id
        entry_id = await _entry_id(link, session_id, entry)
        return entry_id, await answered(link, request(session_id, entry_id))

    return ask_gateway(where, send)


async def _entry_id(link: GatewayLink, session_id: str, text: str) -> str:
    """Find an entry by its id, a unique beginning of it, or its label. Raises Trouble."""
    found = await link.ask(transcripts.tree(session_id))
    exact = [node.id for node in found.nodes if text in (node.id, node.label)]
    hits = exact or [node.id for node in found.nodes if text and node.id.startswith(text)]
    if len(set(hits)) == 1:
        return hits[0]
    if not hits:
        raise Trouble("NotFound", f"The transcript has no entry {text!r}.",
                      f"List them with: interlock sessions tree {session_id} --all")
    raise usage(f"{text!r} names {len(hits)} entries: {', '.join(map(one_line, hits[:5]))}.", "Give more of the id.")


def _show_begun(begun: BegunSession) -> None:
    if begun.report is not None and not begun.report.sound:
        counts = ", ".join(f"{kind} {count}" for kind, count in begun.report.counts.items())
        say(f"the file had damage, which is mended in the session: {counts}", "bold", "damage")
    print_sentence(f"{begun.session.session_id} · {one_line(begun.session.agent_id)} · {begun.entries} entries")
