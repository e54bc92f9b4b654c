"""The runner's own checks (H-10): which agents are checked, when, and how each is held meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock import config
from interlock.agents import evidence
from interlock.app import agent_checks
from interlock.app.agent_checks import AgentChecks, CheckFailed, in_own_process
from interlock.config import Config
from interlock.probe.scratch import digest_of
from interlock.protocol.hold import phrase
from interlock.runner.agent_catalog import Offering

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-10")]


class Place:
    """A state directory, programs on a PATH, and what the checks offered."""

    def __init__(self, root: Path) -> None:
        self.state, self.bin = root / "state", root / "bin"
        self.state.mkdir()
        self.bin.mkdir()
        self.environment = {"PATH": str(self.bin), "HOME": str(root)}
        self.checked: list[str] = []
        self.offered: asyncio.Queue[Offering] = asyncio.Queue()
        self.verdicts: dict[str, str] = {}
        self.config = Config()

    def install(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def configure(self, *names: str, more: str = "") -> Config:
        tables = "".join(f'[agents.{name}]\nadapter = "acp"\ncommand = "{name}"\n' for name in names)
        self.config = config.parse(f"{more}\n{tables}", "interlock.toml")
        return self.config

    async def check(self, name: str) -> None:
        self.checked.append(name)
        verdict = self.verdicts.get(name, "asks")
        if verdict == "fails":
            raise CheckFailed("the program is gone")
        made = evidence.Evidence(
            agent_id=name, verdict=verdict, because="", checked=f"{datetime(2026, 11, 22, tzinfo=UTC):%FT%TZ}",  # type: ignore[arg-type]
            digest=digest_of(self.config.agents[name], self.environment),
            tools=[evidence.ToolEvidence(tool="shell", state="asked" if verdict == "asks" else "ran unasked")])
        (self.state / evidence.FILE_NAME).write_bytes(evidence.with_record(evidence.read(self.state), made))

    def checks(self) -> AgentChecks:
        return AgentChecks(self.state, self.environment, self.check)

    async def held(self) -> dict[str, str]:
        async with asyncio.timeout(10):
            return held(await self.offered.get())


def held(offering: Offering) -> dict[str, str]:
    return {name: phrase(holding) for name, holding in offering.holdings.items()}


@asynccontextmanager
async def kept(place: Place, checks: AgentChecks) -> AsyncIterator[None]:
    task = asyncio.create_task(checks.keep(place.offered.put_nowait))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_known_agents_are_checked_one_by_one_and_offered_with_the_result(place: Place) -> None:
    for name in ("goose", "kimi"):
        place.install(name)
    place.verdicts["kimi"] = "command"
    checks = place.checks()
    first = checks.offering(place.configure("goose", "kimi"), ["/w"])

    assert held(first) == {"goose": "asks (being checked)", "kimi": "asks (being checked)"}
    async with kept(place, checks):
        assert await place.held() == {"goose": "asks (checked 2026-11-22)", "kimi": "asks (being checked)"}
        last = await place.offered.get()
    assert place.checked == ["goose", "kimi"]
    assert (last.agents["goose"].asks, last.agents["kimi"].asks) == (True, False)
    assert last.roots == ["/w"]


async def test_an_agent_is_checked_again_only_if_its_program_or_table_changes(place: Place) -> None:
    place.install("goose")
    checks = place.checks()
    checks.offering(place.configure("goose"), ["/w"])
    async with kept(place, checks):
        assert await place.held() == {"goose": "asks (checked 2026-11-22)"}
        place.install("goose", "#!/bin/sh\n# the next version\n")
        assert held(checks.offering(place.config, ["/w"])) == {"goose": "asks (being checked)"}
        assert await place.held() == {"goose": "asks (being checked)"}
        assert await place.held() == {"goose": "asks (checked 2026-11-22)"}
        assert held(checks.offering(place.config, ["/w"])) == {"goose": "asks (checked 2026-11-22)"}
    assert place.checked == ["goose", "goose"]


async def test_a_change_is_detected_while_the_runner_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_checks, "LOOK_EVERY_S", 0.01)
    place.install("goose")
    checks = place.checks()
    checks.offering(place.configure("goose"), ["/w"])
    async with kept(place, checks):
        await place.held()
        place.install("goose", "#!/bin/sh\n# the next version\n")
        while len(place.checked) < 2:
            await place.held()


async def test_a_failed_check_is_not_repeated_without_a_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_checks, "LOOK_EVERY_S", 0.01)
    place.install("goose")
    place.verdicts["goose"] = "fails"
    checks = place.checks()
    checks.offering(place.configure("goose"), ["/w"])
    async with kept(place, checks):
        assert await place.held() == {"goose": "asks (not checked)"}
        for _ in range(3):
            await place.held()
    assert place.checked == ["goose"]


async def test_unknown_missing_and_exempt_agents_are_not_checked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_checks, "LOOK_EVERY_S", 0.01)
    place.install("own-agent")
    checks = place.checks()
    tables = '[agents.claude]\nadapter = "claude"\n[agents.ex]\nadapter = "exec"\ncommand = "own-agent"\n'
    offering = checks.offering(place.configure("own-agent", "goose", more=tables), ["/w"])
    async with kept(place, checks):
        await place.held()

    assert place.checked == []
    assert held(offering) == {"claude": "asks", "ex": "command (its adapter never asks)",
                              "own-agent": "asks (not checked)", "goose": "asks (not checked)"}


async def test_a_config_can_disable_checks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_checks, "LOOK_EVERY_S", 0.01)
    place.install("goose")
    checks = place.checks()
    checks.offering(place.configure("goose", more="[runner]\ncheck_agents = false"), ["/w"])
    async with kept(place, checks):
        assert await place.held() == {"goose": "asks (not checked)"}
    assert place.checked == []


async def test_a_check_runs_in_its_own_process_and_fails_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="The config has no agent 'goose'"):
        await in_own_process(tmp_path)("goose")


async def test_a_check_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_checks, "CHECK_TIMEOUT_S", 0.2)
    program = tmp_path / "goose"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    program.chmod(0o755)
    (tmp_path / config.FILE_NAME).write_text(f'[agents.goose]\nadapter = "acp"\ncommand = "{program}"\n')

    with pytest.raises(TimeoutError):
        await in_own_process(tmp_path)("goose")
    assert evidence.read(tmp_path) == {}
