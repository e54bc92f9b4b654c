"""`interlock sessions show|tail|tree|export|doctor`: read transcripts of sessions and files (X-4, X-6)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_json, print_sentence, print_table, printable, result, say
from interlock.cli.display.values import count
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.sessions.transcript_sources import Source, file_named, read_file, transcript_of, write_new
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.clock import iso
from interlock.protocol.transcripts import Report
from interlock.sdk.requests import transcripts
from interlock.session.transcript import doctor as repairs
from interlock.session.transcript.doctor import examine
from interlock.session.transcript.entries import VERSION, Header
from interlock.session.transcript.render import markdown, page, section_of
from interlock.session.transcript.tree import Tree, read_tree

TAIL = 10
LINES_SHOWN = 20
"""Lines of a tool's output that `show` prints, unless all are requested."""
FINDINGS_SHOWN = 50
FINDINGS = Layout(text=("WHAT",), drop=("ENTRY",))



def show(source: Source, /, *, full: Annotated[bool, Parameter(help="Do not shorten long output.")] = False,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Show a session's transcript, from the root to the leaf."""
    found = _tree(source, where)
    path = found.path(found.leaf)
    if json:
        print_json(msgspec.json.encode({"header": found.header, "entries": [found.entry(place) for place in path]}))
        return ExitStatus.DONE
    _show(found, path, full=full)
    return ExitStatus.DONE


def tail(
    source: Source,
    /,
    *,
    number: Annotated[int, Parameter(name=("--number", "-n"), help=f"The number of entries (default: {TAIL}).")] = TAIL,
    full: Annotated[bool, Parameter(help="Do not shorten long output.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Show the last entries of a transcript."""
    if number < 1:
        raise usage("At least one entry is shown.", "Give -n a number from 1 on.")
    found = _tree(source, where)
    path = found.path(found.leaf)[-number:]
    if json:
        print_json(msgspec.json.encode({"entries": [found.entry(place) for place in path]}))
        return ExitStatus.DONE
    _show(found, path, full=full)
    return ExitStatus.DONE


def tree(source: Source, /, *, every: Annotated[bool, Parameter(name="--all", help="Show every entry, not "
                                                                                   "only branch points, labels and "
                                                                                   "leaves.")] = False,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Show a transcript's branches and labels."""
    found = _tree(source, where)
    labels = found.labels()
    if json:
        print_json(msgspec.json.encode({
            "nodes": [{"id": node.id, "parent_id": node.parent_id, "type": node.type, "label": labels.get(node.id)}
                      for node in found.nodes], "leaf": found.nodes[-1].id if found.nodes else None}))
        return ExitStatus.DONE
    if not found.nodes:
        say("the transcript is empty", "dim")
        return ExitStatus.DONE
    for line in _drawn(found, labels, every=every):
        result(line)
    return ExitStatus.DONE


def export(source: Source, output: Annotated[Path | None, Parameter(name="FILE", help="The file to write: "
                                                                                      ".jsonl, .md or .html (default: "
                                                                                      "standard output).")] = None,
           /, *, raw: Annotated[bool, Parameter(help="Do not redact it, so that it can be imported elsewhere; for "
                                                     "admins, and recorded.")]
           = False, where: Here = NOWHERE) -> int:
    """Write a transcript to a file: JSONL, Markdown or HTML to read. What the gateway's rules of redaction name is left
    out of a session's; a file is taken as it is."""
    if output is not None and output.exists():
        raise usage(f"{output} is there already.", "Name another place, or remove it.")
    data = asyncio.run(transcript_of(source, where, raw=raw))
    ending = output.suffix.lower() if output is not None else ".jsonl"
    if ending in (".md", ".markdown"):
        data = markdown(read_tree(data.split(b"\n"))).encode("utf-8", "replace")
    elif ending in (".html", ".htm"):
        data = page(read_tree(data.split(b"\n"))).encode("utf-8", "replace")
    if output is None:
        result(data.decode("utf-8", "replace"), end="")
        return ExitStatus.DONE
    write_new(output, data)
    say(f"wrote {output} ({len(data)} bytes)")
    return ExitStatus.DONE


def doctor(source: Source, /, *, repair: Annotated[bool, Parameter(help="Write a repaired transcript; the "
                                                                        "damaged one is kept.")] = False,
           output: Annotated[Path | None, Parameter(name=("--output", "-o"), help="For a file, where to "
                                                                                  "write the repaired one (default: "
                                                                                  "FILE.repaired.jsonl).")] = None,
           json: Json = False, where: Here = NOWHERE) -> int:
    """Say what is wrong with a transcript; repair it.

    Exit status 1 where something is wrong and was not repaired.
    """
    path = file_named(source)
    if path is None:
        if output is not None:
            raise usage("--output is for a file; a session's transcript is repaired in its place.", "Leave it out.")
        return asyncio.run(_of_session(source, where, repair=repair, json=json))
    data = read_file(path)
    report = examine(data)
    kept: str | None = None
    if repair and not report.sound:
        place = output if output is not None else path.with_name(f"{path.stem}.repaired.jsonl")
        header = Header(version=VERSION, id=path.stem, timestamp=iso(round(path.stat().st_mtime * 1000)), cwd="")
        lines = repairs.repair(data, header, os.urandom).lines
        write_new(place, b"".join(line + b"\n" for line in lines))
        if not examine(read_file(place)).sound:
            raise Trouble("InternalError", f"{place} was written, and is not sound.", "Please report it.")
        kept = str(path)
        say(f"wrote {place}; {path} is as it was")
    _reported(report, kept, json=json)
    return ExitStatus.DONE if report.sound or kept is not None else ExitStatus.FAILED


async def _of_session(named: str, where: Where, *, repair: bool, json: bool) -> int:
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, named)).session_id
        report, kept = await link.ask(transcripts.examine(session_id)), None
        if repair and not report.sound:
            repaired = await link.ask(transcripts.repair(session_id))
            report, kept = repaired.report, repaired.kept
            say(f"repaired; the damaged file is kept as {kept}")
    _reported(report, kept, json=json)
    return ExitStatus.DONE if report.sound or kept is not None else ExitStatus.FAILED


def _reported(report: Report, kept: str | None, *, json: bool) -> None:
    if json:
        print_json(msgspec.json.encode({"report": report, "kept": kept}))
        return
    if report.findings:
        print_table([[one.kind, str(one.line or ""), one.entry_id or "", one.message]
                     for one in report.findings[:FINDINGS_SHOWN]], ("FOUND", "LINE", "ENTRY", "WHAT"), FINDINGS)
        more = sum(report.counts.values()) - min(len(report.findings), FINDINGS_SHOWN)
        if more:
            say(f"and {more} more")
    state = "sound" if report.sound else "damaged"
    print_sentence(f"{state}: version {report.version}, {report.entries} entries, leaf {report.leaf or 'none'}")
    if not report.sound and kept is None:
        say("repair it with --repair; the file as it is stays")


def _tree(source: str, where: Where) -> Tree:
    found = read_tree(asyncio.run(transcript_of(source, where)).split(b"\n"))
    if found.damaged:
        say(f"passed over {count(len(found.damaged), 'damaged line')}; see: interlock sessions doctor {source}", "bold",
            "damaged")
    return found


def _show(found: Tree, path: list[int], *, full: bool) -> None:
    for section in filter(None, (section_of(found.entry(place)) for place in path)):
        result(f"── {one_line(section.title)} · {one_line(section.entry_id)}")
        for text in filter(None, (section.prose, section.literal)):
            lines = printable(text).split("\n")
            shown = lines if full or text is section.prose else lines[:LINES_SHOWN]
            result("\n".join(shown))
            if len(shown) < len(lines):
                result(f"… {len(lines) - len(shown)} more lines; --full shows them")
        result("")


def _drawn(found: Tree, labels: dict[str, str], *, every: bool) -> list[str]:
    """Return the tree as lines: unless `every` is set, entries between the root, branch points, labels and ends are
    only counted. It does not recurse, so that a long chain cannot exhaust the stack."""
    children, leaf = found.children(), found.leaf
    drawn: list[str] = []
    waiting = [(place, 0) for place in reversed(children.get(None, []))]
    passed = 0
    while waiting:
        place, depth = waiting.pop()
        below = children.get(place, [])
        node = found.nodes[place]
        if every or len(below) != 1 or node.id in labels or _begins(found, children, place):
            if passed:
                drawn.append("  " * depth + f"… {passed} more {'entry' if passed == 1 else 'entries'}")
                passed = 0
            section = section_of(found.entry(place))
            text = one_line((section.prose or section.literal) if section is not None else "", 60)
            name = section.title if section is not None else node.type
            marks = [f"[{one_line(labels[node.id])}]"] if node.id in labels else []
            marks += ["← leaf"] if place == leaf else []
            drawn.append("  " * depth + " ".join([one_line(node.id), one_line(name), text, *marks]).rstrip())
        else:
            passed += 1
        waiting += [(child, depth + (len(below) > 1)) for child in reversed(below)]
    return drawn


def _begins(found: Tree, children: dict[int | None, list[int]], place: int) -> bool:
    """Return whether the tree or a branch begins with this entry."""
    parent = found.nodes[place].parent_id
    above = found.at.get(parent) if parent is not None else None
    return above is None or len(children.get(above, [])) > 1
