"""Evidence of an agent's check (H-10): its meaning, how long it is valid, and which of two records is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.agents.evidence import (
    FILE_NAME,
    MAX_FILE_BYTES,
    MAX_RECORDS,
    READ_COMMAND,
    SLASH_COMMAND,
    Evidence,
    ToolEvidence,
    kept,
    read,
    settings_digest,
    with_record,
)
from interlock.ports.agent import AgentSpec

pytestmark = pytest.mark.req("H-10")


def evidence(*tools: tuple[str, Any], **fields: Any) -> Evidence:
    return Evidence(**{"agent_id": "a", "verdict": "asks", "because": "", "checked": "2026-01-01", "digest": "d",
                       "tools": [ToolEvidence(tool=tool, state=state) for tool, state in tools], **fields})


@pytest.mark.parametrize(("tool", "state", "worse", "reads"), [
    ("shell", "asked", False, False), ("shell", "ran unasked", True, False), ("shell", "ran after a no", True, False),
    (READ_COMMAND, "ran unasked", False, True), (SLASH_COMMAND, "ran unasked", False, False), ("shell", "not tried",
    False, False),
])
def test_an_unasked_run_counts_unless_it_only_reads_or_follows_a_grant(
        tool: str, state: str, worse: bool, reads: bool) -> None:
    seen = evidence((tool, state))
    assert (seen.saw_worse, seen.reads_unasked) == (worse, reads)


FULL = evidence(("shell", "asked"), ("edit", "asked"))


@pytest.mark.parametrize(("made", "stays"), [
    (evidence(("shell", "asked"), cut_short=True), True), (evidence(("shell", "asked")), False),
    (evidence(("shell", "ran unasked"), cut_short=True), False), (evidence(cut_short=True, digest="other"), False),
    (evidence(cut_short=True, version="2"), False), (evidence(("a", "asked"), ("b", "asked"), cut_short=True), False),
    (evidence(("a", "not tried"), ("b", "did not end"), cut_short=True), True),
])
def test_an_interrupted_check_does_not_replace_a_complete_one(made: Evidence, stays: bool) -> None:
    assert kept(FULL, made) is (FULL if stays else made)
    assert kept(None, made) is made


def test_records_are_read_as_written_and_the_oldest_is_removed(tmp_path: Path) -> None:
    records: dict[str, Evidence] = {}
    for number in range(MAX_RECORDS + 1):
        raw = with_record(records, evidence(agent_id=f"a{number}", checked=f"2026-01-{number:03}"))
        (tmp_path / FILE_NAME).write_bytes(raw)
        records = read(tmp_path)
    assert len(records) == MAX_RECORDS
    assert "a0" not in records
    assert records["a64"] == evidence(agent_id="a64", checked="2026-01-064")


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a":{}}', b"\xff", b" " * (MAX_FILE_BYTES + 1)])
def test_unreadable_evidence_counts_as_none(tmp_path: Path, raw: bytes) -> None:
    assert read(tmp_path) == {}
    (tmp_path / FILE_NAME).write_bytes(raw)
    assert read(tmp_path) == {}


SPEC = AgentSpec(adapter="acp", command="agent", args=["--acp"], env={"A": "1"})


@pytest.mark.parametrize("change", [
    {"args": []}, {"env": {"A": "2"}}, {"mode": "plan"}, {"adapter": "dps"}, {"command": "b"}])
def test_a_digest_changes_with_everything_that_decides_how_an_agent_asks(change: dict[str, Any]) -> None:
    assert settings_digest(msgspec.structs.replace(SPEC, **change), {}) != settings_digest(SPEC, {})


def test_a_digest_covers_the_program_that_would_start(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    there, path = settings_digest(SPEC, {"PATH": str(tmp_path)}), {"PATH": str(tmp_path)}
    assert there != settings_digest(SPEC, {})
    assert there == settings_digest(msgspec.structs.replace(SPEC, name="Mine"), path), "a name decides nothing"
    program.write_text("#!/bin/sh\necho other\n")
    assert settings_digest(SPEC, path) != there
    assert settings_digest(SPEC, path, {"settings.json": b"{}"}) != settings_digest(SPEC, path)
