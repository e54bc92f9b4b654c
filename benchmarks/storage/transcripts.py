"""`python -m benchmarks transcripts`: 100,000 entries opened, their context and the memory for it, beside pi (X-7).

Each figure comes from a process of its own, which opens the file once. pi runs on the same file in the same run, if
node and pi are installed (`.ci/install-agents`, or INTERLOCK_TEST_PI); if not, its column shows that. Appending is
measured beside a bare append of the same bytes to a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import REPOSITORY
from benchmarks.storage import session_rows
from interlock.backends.jsonl.files import TranscriptFiles
from interlock.backends.jsonl.transcript_index import Indexed, index_path
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.records import TranscriptLine
from interlock.session.context.compaction_plan import CompactionSettings, plan
from interlock.session.context.compaction_plan import Path as Walk
from interlock.session.transcript.tree import read_tree

ENTRIES = 100_000
TEXT_BYTES = 330
KEPT_PERCENT = 5
"""In the file with a compaction: what it keeps of its entries."""
ROUNDS = 3
WINDOW_TOKENS = 200_000
APPENDS = 300
TURNS = 20
PATIENCE_S = 120
AT = "2026-01-01T00:00:00.000Z"
INSTALLED = REPOSITORY / ".ci/node_modules/@mariozechner/pi-coding-agent"
LIMITS = {"open_s": 0.3, "context_s": 0.03, "memory_bytes": 397_000_000 / 2}
"""What X-7 asks for on two cores that nothing else uses."""


def run(seconds: float, most: int = ENTRIES) -> dict[str, Any]:
    """Measure, with at most `most` entries and sessions; `seconds` shortens nothing but the appends."""
    entries = min(ENTRIES, most)
    with tempfile.TemporaryDirectory() as name:
        plain, compacted = Path(name) / "plain.jsonl", Path(name) / "compacted.jsonl"
        write(plain, entries)
        write(compacted, entries, entries * (100 - KEPT_PERCENT) // 100)
        time.sleep(0.2)  # A file that changed just now is not indexed yet.
        report: dict[str, Any] = {"entries": entries, "bytes": plain.stat().st_size, "limits": LIMITS,
                                  "load": os.getloadavg()[0]}
        for path in (plain, compacted):
            first = [_alone("first", path) for _ in range(ROUNDS)]
            again = [_alone("again", path) for _ in range(ROUNDS)]
            plans = [_alone("plan", path) for _ in range(ROUNDS)]
            report[path.stem] = {"first": _middle(first), "again": _middle(again), "pi": _pi(path),
                                 "plan": _middle(plans)}
        report["turn"] = asyncio.run(turns(Path(name) / "turns", compacted))
        report["append"] = appends(Path(name), max(20, min(APPENDS, round(seconds * 15))))
        report["sessions"] = session_rows.measured(Path(name), most)
        return report


def write(path: Path, entries: int, compacted_at: int | None = None) -> None:
    """Write a chain of user and assistant messages."""
    parent: str | None = None
    with path.open("wb") as file:
        file.write(msgspec.json.encode({"type": "session", "version": 3, "id": "S", "timestamp": AT, "cwd": "/w"})
                   + b"\n")
        for number in range(entries):
            entry_id = f"{number * 2_654_435_761 % 2**32:08x}"
            entry = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": AT,
                     "message": _message(number)}
            if compacted_at is not None and number == entries - 10:
                kept = f"{compacted_at * 2_654_435_761 % 2**32:08x}"
                entry = {"type": "compaction", "id": entry_id, "parentId": parent, "timestamp": AT, "summary": "so far",
                         "firstKeptEntryId": kept, "tokensBefore": 100_000}
            file.write(msgspec.json.encode(entry) + b"\n")
            parent = entry_id


def _message(number: int) -> dict[str, Any]:
    if number % 2 == 0:
        return {"role": "user", "content": "x" * TEXT_BYTES, "timestamp": number}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {"role": "assistant", "content": [{"type": "text", "text": 'say "y"\n' * 16}], "api": "rawp",
            "provider": "p", "model": "m", "stopReason": "stop", "timestamp": number,
            "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3, "cost": cost}}


def _middle(figures: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in figures) for name in figures[0]}


def _alone(which: str, path: Path) -> dict[str, float]:
    """Open a file in a process of its own; `first` without an index, `again` with the one that is there; or `plan` a
    compaction of it."""
    if which == "first":
        index_path(path).unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.storage.transcripts", str(path), which]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S, cwd=REPOSITORY)
    return json.loads(done.stdout)


def opened(path: Path) -> dict[str, float]:
    """Open a file, build its context, and then make its index, which no one waits for: {open_s, context_s, index_s,
    memory_bytes, messages}. The memory is the process's peak before the index is made, and after."""
    before = time.perf_counter()
    with Indexed(path) as file:
        after = time.perf_counter()
        found = file.context()
        built = time.perf_counter()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    file.keep_index()
    return {"open_s": after - before, "context_s": built - after, "index_s": time.perf_counter() - built,
            "memory_bytes": memory, "memory_indexed_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "messages": len(found.raw), "from_index": file.from_index}


def planned(path: Path) -> dict[str, float]:
    """Plan a compaction of a file (Z-3): {read_s, plan_s, entries}. The whole of an uncompacted one is looked through,
    for what it has and which files it touched; of a compacted one what has come since."""
    before = time.perf_counter()
    tree = read_tree(path.read_bytes().split(b"\n"))
    after = time.perf_counter()
    made = plan(Walk.of_tree(tree), CompactionSettings(), WINDOW_TOKENS)
    return {"read_s": after - before, "plan_s": time.perf_counter() - after, "entries": len(made.entry_ids)}


def _pi(path: Path) -> dict[str, float] | str:
    """What pi needs for the same file, or why it was not asked."""
    package = Path(os.environ.get("INTERLOCK_TEST_PI", INSTALLED))
    if shutil.which("node") is None or not (package / "dist/index.js").exists():
        return "not measured: node or pi is not there (.ci/install-agents)"
    figures: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        done = subprocess.run(["node", REPOSITORY / "tests/session/pi.mjs", package, "context", path], check=True,
                              capture_output=True, timeout=PATIENCE_S, env={**os.environ, "FIGURES": "1"})
        printed = json.loads(done.stdout)
        figures.append({"open_s": printed["open_s"], "context_s": printed["context_s"],
                        "memory_bytes": printed["memory"], "messages": printed["messages"]})
    return _middle(figures)


async def turns(state: Path, compacted: Path) -> dict[str, float]:
    """A turn of a long session, in seconds: what its prompt and its answer append, then its context; by the index, and
    by the whole file as it was before."""
    store = JsonlTranscripts(state, ManualClock())
    path = state / "agents/shell/sessions/S.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(compacted, path)
    header = TranscriptHeader("S", "shell", "/w", AT, "t1")
    await asyncio.sleep(0.2)  # A file that changed just now is not indexed yet.
    began = time.perf_counter()
    leaf, taken = await store.leaf("S", "shell", "t1"), await store.trunk("S", "shell", "t1")
    found = {"first_s": time.perf_counter() - began, "entries": float(len(taken.nodes))}
    await store.close()  # The index is made when no one waits for it.
    store = JsonlTranscripts(state, ManualClock())
    leaf = await store.leaf("S", "shell", "t1")
    for name, read in (("turn_s", store.trunk), ("whole_s", store.tree)):
        spent: list[float] = []
        for number in range(TURNS):
            entry_id = f"{'f' if name == 'turn_s' else 'e'}{number:07x}"
            line = msgspec.json.encode({"type": "message", "id": entry_id, "parentId": leaf, "timestamp": AT,
                                        "message": _message(number)})
            began = time.perf_counter()
            await store.append(header, [TranscriptLine(tenant_id="t1", session_id="S", entry_id=entry_id, line=line)])
            await read("S", "shell", "t1")
            spent.append(time.perf_counter() - began)
            leaf = entry_id
        found[name] = statistics.median(spent)
    await store.close()
    return found


def appends(directory: Path, count: int) -> dict[str, float]:
    """Appends a second: ours (durable), a bare append with fdatasync, a bare append without."""
    files = TranscriptFiles(directory, ManualClock())
    header = TranscriptHeader("S", "shell", "/w", AT, "t1")
    lines = [TranscriptLine(tenant_id="t1", session_id="S", entry_id=f"{number:08x}", line=msgspec.json.encode(
        {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": AT, "message": _message(number)}))
        for number in range(count)]
    began = time.perf_counter()
    for line in lines:
        files.append(header, [line])
    ours = time.perf_counter() - began
    return {"ours_per_s": count / ours, "synced_per_s": _bare(directory / "synced", lines, sync=True),
            "unsynced_per_s": _bare(directory / "unsynced", lines, sync=False)}


def _bare(path: Path, lines: list[TranscriptLine], *, sync: bool) -> float:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    began = time.perf_counter()
    for line in lines:
        os.write(fd, line.line + b"\n")
        if sync:
            os.fdatasync(fd)
    spent = time.perf_counter() - began
    os.close(fd)
    return len(lines) / spent


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{report['entries']} entries, {report['bytes'] / 1e6:.0f} MB, machine's load {report['load']:.1f}",
             f"{'':34}{'open':>10}{'context':>10}{'memory':>10}"]
    for name in ("plain", "compacted"):
        for who, label in (("first", "Interlock, no index yet"), ("again", "Interlock, by its index"), ("pi", "pi")):
            found = report[name][who]
            if isinstance(found, str):
                lines.append(f"{name + ', ' + label:34} {found}")
                continue
            lines.append(f"{name + ', ' + label:34}{found['open_s'] * 1e3:>7.1f} ms{found['context_s'] * 1e3:>7.1f} ms"
                         f"{found['memory_bytes'] / 1e6:>7.0f} MB")
    lines.append(f"making the index: {report['plain']['first']['index_s'] * 1e3:.0f} ms, once, after the answer")
    for name in ("plain", "compacted"):
        found = report[name]["plan"]
        lines.append(f"planning a compaction, {name}: {found['plan_s'] * 1e3:.0f} ms, {found['entries']:.0f} entries "
                     f"summed up; the file was read in {found['read_s'] * 1e3:.0f} ms; on a thread of its own")
    turn = report["turn"]
    lines.append(f"a turn's append and context, compacted: {turn['turn_s'] * 1e3:.1f} ms by the index, "
                 f"{turn['whole_s'] * 1e3:.0f} ms by the whole file; without an index {turn['first_s'] * 1e3:.0f} ms")
    append = report["append"]
    lines.append(f"append: {append['ours_per_s']:.0f}/s durable; bare with fdatasync {append['synced_per_s']:.0f}/s, "
                 f"without {append['unsynced_per_s']:.0f}/s")
    lines += session_rows.lines(report["sessions"])
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps((planned if sys.argv[2] == "plan" else opened)(Path(sys.argv[1]))))
