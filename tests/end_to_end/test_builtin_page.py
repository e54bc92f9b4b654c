"""The page on the builtin agent, command by command, as its reader types them; the model is the tests' own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator
from pathlib import Path

import pytest

from interlock.model_stand_in import ModelServer, running_model_server
from proof import REPOSITORY
from proof.processes.fork_server import ForkServer

PAGE = REPOSITORY / "docs/how-to/builtin-agent.md"
PATIENCE_S = 120


@pytest.fixture
def model() -> Generator[ModelServer]:
    with running_model_server() as server:
        yield server


@pytest.mark.req("B-1", "G-3", "G-7")
def test_the_page_does_what_it_describes(model: ModelServer, fork_server: ForkServer, tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    typed = [line[2:] for line in page.splitlines() if line.startswith("$ interlock run builtin")]
    typed += [line for line in page.splitlines() if line.startswith("interlock run builtin")]
    assert len(typed) == 4
    place = tmp_path / "work"
    place.mkdir()
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("INTERLOCK_") and not name.endswith("_API_KEY")}
    environment = clean | {"INTERLOCK_STATE": str(tmp_path / "state")}
    started = environment | {"ANTHROPIC_API_KEY": "the key", "ANTHROPIC_BASE_URL": model.url}
    with fork_server.at_work(["up", "--port", "0"], place, environment=started) as up:
        printed = "".join(iter(up.stderr.readline, "Ctrl-C ends all of it.\n"))
        assert "agents: builtin, shell" in printed or "agents: shell, builtin" in printed
        for line in typed:
            words = shlex.split(line)[1:]
            ran = fork_server.run(words, place, environment=environment, timeout=PATIENCE_S)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout == "Hello from the model server.\n"
            assert model.recording.turns()[-1].asked.prompt.endswith(words[2])
        assert model.recording.turns()[-1].asked.model == "claude-opus-5-5"
        # `--continue` continues the conversation.
        assert "write a poem" in str(model.recording.turns()[2].body)
        # A wrong key is reported where it was typed; the gateway never received it.
        assert "the key" not in "".join(file.read_text(errors="replace") for file in
                                        (tmp_path / "state").rglob("*") if file.suffix in (".log", ".jsonl"))
        up.terminate()
        up.wait(PATIENCE_S)


@pytest.mark.req("B-1")
def test_without_a_key_one_sentence_names_the_setting(tmp_path: Path) -> None:
    from interlock.agents.registry import offers, with_builtin

    found = {offer.agent_id: offer.unavailable for offer in offers(with_builtin({}), {})}
    assert found["shell"] is None
    assert "ANTHROPIC_API_KEY" in (found["builtin"] or "")
    assert offers(with_builtin({}), {"OPENAI_API_KEY": "k"})[1].unavailable is None
