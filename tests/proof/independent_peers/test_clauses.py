"""`python -m proof seeds` without its slow plays: the peers are independent, the table holds, breaks are noticed."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import pytest

from proof import independent_peers
from proof.independent_peers.breaks import BREAKS
from proof.independent_peers.report import printed
from proof.independent_peers.stage import stage
from proof.independent_peers.table import FAILS, HOLDS, perform

pytestmark = pytest.mark.long

PEERS = ("peer_runner", "peer_gateway", "peer_client", "profile", "forms", "agents")
FOREIGN = {"websockets"}
"""The one library that peers use beside Python's own."""


def imported(module: str) -> set[str]:
    """Names of all modules that a peer imports, at its head or further in."""
    tree = ast.parse((Path(independent_peers.__file__).parent / f"{module}.py").read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("module", PEERS)
def test_a_peer_imports_nothing_of_interlock(module: str) -> None:
    others = tuple(f"proof.independent_peers.{name}" for name in PEERS)
    for name in imported(module):
        assert name.split(".")[0] in sys.stdlib_module_names | FOREIGN or name.startswith(others), name


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_names_existing_plays(name: str) -> None:
    names = [play.name for play in independent_peers.all_plays()]
    assert len(names) == len(set(names))
    assert BREAKS[name].noticed_by
    assert set(BREAKS[name].noticed_by) <= set(names)


@pytest.mark.req("D-2", "D-4", "W-1", "E-1", "T-1", "T-2", "T-5", "T-6", "A-1", "A-2", "A-4", "A-5", "A-6", "C-0",
                 "M-1", "S-1", "S-5")
@pytest.mark.anyio
async def test_the_table_holds_and_each_break_of_it_is_detected(tmp_path: Path) -> None:
    plays = {play.name: play for play in independent_peers.all_plays() if not play.slow}
    async with stage(tmp_path) as found:
        lines, *broken = await asyncio.gather(perform(found, list(plays.values())), *(
            perform(found.under(BREAKS[name]()), [plays[BREAKS[name].noticed_by[0]]]) for name in BREAKS))

    print(printed(lines))
    assert [line.play.name for line in lines if line.verdict == FAILS] == []
    assert [name for name, (line,) in zip(BREAKS, broken, strict=True) if line.verdict == HOLDS] == []
