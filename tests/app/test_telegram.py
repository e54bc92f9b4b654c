"""A Telegram bot of the config: without its table nothing is opened (O-13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.config import Config, ConfigError, PersonSection
from interlock.config.telegram import TelegramSection
from lazily import lazily

telegram = lazily("interlock.app.telegram")

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-13")]


async def test_without_its_table_the_message_names_its_page(tmp_path: Path) -> None:
    gate: Any = object()
    with pytest.raises(ConfigError, match=r"no \[telegram\] table"):
        await telegram.run(tmp_path, Config(), gate)


async def test_people_are_identified_by_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[Any] = []

    async def carry(_bot: Any, crowd: Any, *_rest: Any) -> None:
        carried.append(crowd)

    monkeypatch.setattr("interlock.app.telegram.run_bridge", carry)
    monkeypatch.setenv("BOT", "7:token")
    people = {"42": PersonSection(key_env="KIM")}
    gate: Any = object()
    await telegram.run(tmp_path, Config(telegram=TelegramSection(token_env="BOT", people=people)), gate)
    assert list(carried[0][0]) == [42]
