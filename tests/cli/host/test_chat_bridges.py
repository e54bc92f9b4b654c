"""`interlock telegram` and `slack`: without their table, or their library, they report what is missing (O-12, O-13)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.cli.config.place import Where
from interlock.cli.host import chat_bridges
from interlock.cli.host.chat_bridges import slack, telegram
from interlock.cli.verb_error import Trouble

TABLE = '[telegram]\ntoken_env = "T"\n[telegram.people.7]\nkey_env = "K"\n'


@pytest.fixture
def where(tmp_path: Path) -> Where:
    tmp_path.chmod(0o700)
    return Where(state=tmp_path, url="http://127.0.0.1:9")


def test_a_config_without_its_table_gives_a_sentence_with_its_page(where: Where) -> None:
    for verb, name in ((telegram, "telegram"), (slack, "slack")):
        with pytest.raises(Trouble, match=rf"no \[{name}\] table") as trouble:
            verb(where=where)
        assert f"docs/how-to/{name}.md" in trouble.value.remedy


def test_a_missing_library_is_named_with_its_install_command(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> Any:
        raise ModuleNotFoundError("aiogram")

    monkeypatch.setattr(chat_bridges, "load_config", lambda _where: SimpleNamespace(telegram=object()))
    monkeypatch.setattr(chat_bridges, "import_module", missing)
    with pytest.raises(Trouble, match="The Telegram channel is not installed") as trouble:
        telegram(where=where)
    assert "[telegram]" in trouble.value.remedy
