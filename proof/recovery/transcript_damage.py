"""T1: every truncation, every corrupted byte and every split of a 50-entry transcript: it is read in bounded time, no
byte of it changes, its damage is reported, and the repaired file is valid and has every entry that could be read."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from interlock.backends.jsonl.files import TranscriptFiles
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.clock import iso
from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import context
from interlock.session.transcript.doctor import NOTES, examine, repair
from interlock.session.transcript.entries import Custom, Header, entry_line
from interlock.session.transcript.tree import read_tree
from proof import REPOSITORY

ENTRIES = 50
PATIENCE_S = 5.0
"""The limit of reading, examining and repairing a file of a few kilobytes on the busiest host; beyond, it hangs."""
AT = "2026-01-01T00:00:00.500Z"
TOP = Header(version=3, id="S", timestamp=AT, cwd="/w")
SPOILERS: tuple[tuple[str, bytes], ...] = (("nul", b"\0"), ("line feed", b"\n"), ("not UTF-8", b"\xff"),
                                           ("quote", b'"'), ("brace", b"{"))


class _Clock:
    def now_ms(self) -> int:
        return round(time.time() * 1000)

    def monotonic_ms(self) -> int:
        return round(time.monotonic() * 1000)


def damage(seed: int, rounds: int | None = None) -> dict[str, Any]:
    """Spoil the file at every byte in every way (at `rounds` bytes, if given): {files, said, unsound, lost, slow,
    changed, silent, by_kind}."""
    sys.path[:0] = [str(REPOSITORY / "tests")] if str(REPOSITORY / "tests") not in sys.path else []
    from session.trees import file_of, random_entries

    dice = random.Random(seed)
    whole = file_of(random_entries(dice, ENTRIES, 0.2))
    places = range(len(whole)) if rounds is None else sorted(dice.sample(range(len(whole)), min(rounds, len(whole))))
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for at in places:
        _judge(whole[:at], counts, kinds, whole)
        _judge(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :], counts, kinds, whole)
        name, spoiler = SPOILERS[at % len(SPOILERS)]
        counts[f"with a {name}"] += 1
        _judge(whole[:at] + spoiler + whole[at + 1 :], counts, kinds, whole)
        _judge(whole[:at] + b"\n" + whole[at:], counts, kinds, whole)
        _judge(whole[:at] + whole[min(len(whole), at + dice.randrange(1, 600)) :], counts, kinds, whole)
        _judge(whole[:at] + b"\0" * dice.randrange(1, 600) + whole[at:], counts, kinds, whole)
    return {**{name: counts[name] for name in ("files", "said", "same", "unsound", "lost", "slow", "silent")},
            "by_kind": dict(sorted(kinds.items()))}


def _judge(data: bytes, counts: Counter[str], kinds: Counter[str], whole: bytes) -> None:
    began = time.monotonic()
    tree = read_tree(data.split(b"\n"))
    context(tree)
    report = examine(data)
    repaired = b"".join(line + b"\n" for line in repair(data, TOP, random.randbytes).lines)
    after = examine(repaired)
    counts["files"] += 1
    counts["slow"] += time.monotonic() - began > PATIENCE_S
    counts["said"] += bool(report.counts)
    counts["unsound"] += not after.sound
    kept = set(read_tree(repaired.split(b"\n")).at)
    counts["lost"] += not {node.id for node in tree.nodes} <= kept
    # A lost line without a report would be a silent loss; a change within a text cannot be detected.
    if not report.counts:
        counts["same"] += 1
        counts["silent"] += bool(tree.damaged) or _incomplete(data, len(tree.nodes))
    kinds.update(kind for kind in report.counts if kind not in NOTES)


def _incomplete(data: bytes, entries: int) -> bool:
    """Whether the file has a line that is neither header, blank nor an entry."""
    return sum(bool(line.strip()) for line in data.split(b"\n")) > entries + 1


def appends(seed: int, rounds: int | None = None) -> dict[str, Any]:
    """Append to the file after a truncation at every byte: {files, destroyed, unread}. Not a byte may be missing from
    the file and what was set aside, and the new entry is read."""
    sys.path[:0] = [str(REPOSITORY / "tests")] if str(REPOSITORY / "tests") not in sys.path else []
    from session.trees import file_of, random_entries

    dice = random.Random(seed)
    whole = file_of(random_entries(dice, ENTRIES, 0.2))
    places = range(1, len(whole)) if rounds is None else sorted(dice.sample(range(1, len(whole)), rounds))
    destroyed = unread = 0
    with tempfile.TemporaryDirectory() as name, capture_logs():
        for at in places:
            files = TranscriptFiles(Path(name), _Clock())
            session_id = f"s{at}"
            path = files.path(session_id, "shell")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole[:at])
            line = entry_line(Custom("x", {}), "ffffffff", None, iso(0))
            files.append(TranscriptHeader(session_id, "shell", "/w", AT, "default"),
                         [TranscriptLine(tenant_id="default", session_id=session_id, entry_id="ffffffff", line=line)])
            data = path.read_bytes()
            aside = b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}.*"))
            before = data[: -len(line) - 1]
            # A line feed may have been added, or a header if the torn line was the header.
            destroyed += before + aside not in (whole[:at], whole[:at] + b"\n") and aside != whole[:at]
            unread += "ffffffff" not in read_tree(data.split(b"\n")).at
            for one in path.parent.glob(f"{path.name}*"):
                one.unlink()
    return {"files": len(places), "destroyed": destroyed, "unread": unread}


def run(seed: int, rounds: int | None) -> bool:
    """Run it and print; `rounds` is the number of places in the file, by default every byte."""
    found = damage(seed, rounds)
    for kind, count in found.pop("by_kind").items():
        print(f"  {count:7} {kind}")
    print("  damage ", found, flush=True)
    appended = appends(seed, rounds)
    print("  appends", appended, flush=True)
    return not any((*(found[name] for name in ("unsound", "lost", "slow", "silent")), appended["destroyed"],
                    appended["unread"]))
