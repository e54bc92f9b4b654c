"""`python -m benchmarks peers`: its table, its page, and what it does with a server that is absent or fails."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from benchmarks import REPOSITORY
from benchmarks.peers import comparison
from benchmarks.peers.comparison import BEGIN, END, PEERS, PeerResult, PeersReport, middle_of, run, shown_in, table
from benchmarks.peers.python_servers import LangGraphPeer
from benchmarks.peers.servers import OpencodePeer, Place, events_of, version_of

OURS = PeerResult("Interlock", "0.1.0", "REST", "", 2.0, 4, 1_000.0, 6.0, 250.0, 2.7, 300, 0, 1, 1.0)
OTHER = PeerResult("one", "1.2", "REST", "", 1.0, 1, 2_000.0, 1.0, 100.0, -0.1, 300, 300, 2, 2.0)


def test_servers_are_shown_beside_ours_and_absent_ones_with_a_reason() -> None:
    shown = table(PeersReport([OURS, OTHER, PeerResult("two", missing="no `two` on PATH")], 3.0)).splitlines()
    assert shown[2] == "| Interlock 0.1.0 | 2.0 | 4 of 4 | 1,000 | 1.00 | 6.0 | 250 | 2.7 | 300, 0 | 1 |"
    assert shown[3] == "| one 1.2 | 1.0 | 1 of 4 | 2,000 | 2.00 | 1.0 | 100 | 0.0 | 300, 300 | 2 |"
    assert shown[-1] == "- two: no `two` on PATH"


def test_a_page_contains_the_table_between_its_markers() -> None:
    page = f"# Page\n{BEGIN}\nold\n{END}\nafter\n"
    once = shown_in(page, PeersReport([OURS], 3.0))
    assert "old" not in once
    assert once.startswith(f"# Page\n{BEGIN}\n\n| server")
    assert once.endswith(f"{END}\nafter\n")
    assert shown_in(once, PeersReport([OURS], 3.0)) == once
    assert "Medians of 1 rounds" in once
    with pytest.raises(ValueError, match="has no lines"):
        shown_in("# Page\n", PeersReport([OURS], 3.0))


def test_rounds_are_summarized_by_medians_and_losses_by_the_worst() -> None:
    rounds = [PeerResult("one", readers=4, events_s=rate, lost=lost, of_ours=share)
              for rate, lost, share in ((10.0, 0, 0.1), (90.0, 300, 0.3), (20.0, 0, 0.2))]
    shown = middle_of([*rounds, PeerResult("one", missing="at its start: it ended")])
    assert (shown.events_s, shown.of_ours, shown.lost, shown.missing) == (20.0, 0.2, 300, "")
    assert middle_of([PeerResult("one", missing="absent")]).missing == "absent"


@pytest.mark.parametrize("name", [kind.name for kind in PEERS if not kind.name.startswith("Interlock")])
def test_each_absent_server_is_named_with_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("ACP_SDK_MODULES", raising=False)
    (absent,) = run((name,), rounds=2).results
    assert re.search("npm's|PyPI's", absent.missing)


def test_the_page_of_the_documentation_has_a_table() -> None:
    page = (REPOSITORY / "docs/explanation/beside-others.md").read_text("utf-8")
    assert "| Interlock " in page.partition(BEGIN)[2].partition(END)[0]


def test_a_server_that_is_not_installed_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    report = run(("opencode serve",))
    assert [one.missing for one in report.results] == ["no `opencode` on PATH; npm's opencode-ai has it"]


def test_a_version_is_found_in_the_output_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "one"
    program.write_text("#!/bin/sh\necho 'one 0.19.1 (built 2026-10-21T23:37:47Z)'\n")
    program.chmod(0o755)
    assert version_of([str(program)], {}) == "0.19.1"


def test_a_server_that_ends_at_once_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (failed,) = run(("opencode serve",), rounds=1).results
    assert failed.missing == "at its start: it ended with status 3"


async def _refused() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="404"):
            await anext(events_of(f"http://127.0.0.1:{port}/event"))


def test_a_refused_stream_is_an_error() -> None:
    asyncio.run(_refused())


def test_settings_are_written_into_a_separate_home(tmp_path: Path) -> None:
    peer = OpencodePeer(Place(tmp_path / "home", 1, "http://127.0.0.1:2"))
    asyncio.run(peer.close())
    assert "http://127.0.0.1:2/v1" in (tmp_path / "home/.config/opencode/opencode.json").read_text()


def test_the_langgraph_graph_is_in_the_directory_of_its_server(tmp_path: Path) -> None:
    peer = LangGraphPeer(Place(tmp_path / "home", 1, "http://127.0.0.1:2"))
    asyncio.run(peer.close())
    named = json.loads((tmp_path / "home/workspace/langgraph.json").read_text())["graphs"]["agent"]
    path, _, name = named.partition(":")
    assert name in ast.unparse(ast.parse((tmp_path / "home/workspace" / path).read_text())), "it is Python, and has it"
    assert peer.environment()["MODEL_URL"] == "http://127.0.0.1:2"


@pytest.mark.long
def test_our_gateway_stores_the_shown_text_and_asks_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SESSIONS", 1)
    (ours,) = run(("Interlock",), events=500, rounds=1).results
    assert ours.missing == ""
    assert (ours.readers, ours.lost, ours.runs) == (4, 0, 1)
    assert ours.seen >= comparison.KILL_AFTER
