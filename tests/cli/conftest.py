"""Verbs of the command line against a gateway that answers from a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.scripted import URL, Script, link_to
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, list[Any]]], tuple[Script, Where]]:
    """Have each verb of single requests ask a gateway that answers so; the script, and the options that name it."""
    def with_answers(answers: dict[str, list[Any]]) -> tuple[Script, Where]:
        script = Script(answers)
        monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))
        return script, Where(state=tmp_path, url=URL)

    return with_answers
