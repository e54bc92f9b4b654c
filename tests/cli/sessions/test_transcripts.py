"""`interlock sessions tree` of a transcript's file: what is drawn of it, and what is only counted (X-4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from interlock.cli.dispatch import dispatch
from interlock.cli.exit_status import ExitStatus


def transcript(
    path: Path, parents: dict[str, str | None], labels: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Write a transcript with a message for each id, below the entry that is its value, and a label below the last
    one for each id of `labels`; returns the file's name."""
    header = {"type": "session", "version": 3, "id": "5f0f7a9e-0000-4000-8000-000000000000",
              "timestamp": "2026-11-01T00:00:00.000Z", "cwd": "/work"}
    entries = [{"type": "message", "id": one, "parentId": parent, "timestamp": "2026-11-01T00:00:00.000Z",
                "message": {"role": "user", "content": f"text {one}", "timestamp": 1_793_491_200_000}}
               for one, parent in parents.items()]
    entries += [{"type": "label", "id": f"f{number:07x}", "parentId": [*parents][-1], "targetId": one, "label": label,
                 "timestamp": "2026-11-01T00:00:00.000Z"} for number, (one, label) in enumerate(labels.items())]
    path.write_text("".join(json.dumps(line) + "\n" for line in [header, *entries]))
    return str(path)


@pytest.mark.req("X-4")
def test_a_chain_of_entries_is_counted_and_all_shows_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{n:08x}" for n in range(1_000)]
    file = transcript(tmp_path / "long.jsonl", dict(zip(names, [None, *names[:-1]], strict=True)))
    assert dispatch(["sessions", "tree", file]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "00000000 User text 00000000", "… 998 more entries", "000003e7 User text 000003e7 ← leaf"]
    assert dispatch(["sessions", "tree", file, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1_000


@pytest.mark.req("X-6")
@pytest.mark.parametrize("content", [b"", b"# Notes\n\ntext\n", b'{"name": "x"}\n', b"\x89PNG\r\n\0\0\xff"])
@pytest.mark.parametrize("verb", ["export", "show", "tail", "tree"])
def test_a_file_that_is_not_a_transcript_is_refused(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, content: bytes) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_bytes(content)
    assert dispatch(["sessions", verb, str(file)]) == ExitStatus.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "is not a transcript" in shown.err


@pytest.mark.req("X-6")
def test_a_damaged_transcript_with_one_entry_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "damaged.jsonl"
    file.write_text('garbage\n{"type": "message", "id": "0000000a", "parentId": null}\n')
    assert dispatch(["sessions", "export", str(file)]) == 0
    assert capsys.readouterr().out == file.read_text()


@pytest.mark.req("X-4")
def test_branches_are_drawn_with_their_first_and_last_entry(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = transcript(tmp_path / "parted.jsonl", {
        "0000000a": None, "0000000b": "0000000a", "0000000c": "0000000b", "0000000d": "0000000c",
        "0000000e": "0000000d", "0000000f": "0000000c"})
    assert dispatch(["sessions", "tree", file]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0000000a User text 0000000a", "… 1 more entry", "0000000c User text 0000000c",
        "  0000000d User text 0000000d", "  0000000e User text 0000000e", "  0000000f User text 0000000f ← leaf"]


@pytest.mark.req("X-4")
def test_an_entry_with_a_label_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{n:08x}" for n in range(5)]
    file = transcript(tmp_path / "labelled.jsonl", dict(zip(names, [None, *names[:-1]], strict=True)),
                      {names[2]: "here"})
    assert dispatch(["sessions", "tree", file]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "00000000 User text 00000000", "… 1 more entry", "00000002 User text 00000002 [here]", "… 2 more entries"]
