"""`[telegram]`: a token from one place, people by their numbers, each with one key, and an address with TLS."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.telegram import API_URL, PersonSection, TelegramSection

BOT = {"token_env": "BOT"}


def test_a_valid_table_is_read() -> None:
    read = msgspec.convert({**BOT, "ask": [-100, 7], "people": {"7": {"key_file": "k"}}}, TelegramSection)
    assert (read.api_url, read.groups, read.ask) == (API_URL, "mention", [-100, 7])


@pytest.mark.parametrize(("table", "sentence"), [
    ({}, "token_file: "), ({**BOT, "token_file": "t"}, "token_file: "), ({**BOT, "groups": "none"}, "groups"),
    ({**BOT, "api_url": "http://api.example"}, "api_url: an https URL"), ({**BOT, "ask": ["@ops"]}, "ask"),
    ({**BOT, "people": {"ann": {"owner": True}}}, "'ann' is not a Telegram id"), ({**BOT,
    "people": {"": {"owner": True}}}, "''"),
    ({**BOT, "people": {"\u0667": {"owner": True}}}, "is not a Telegram id"),
    ({**BOT, "people": {"-7": {"owner": True}}}, "'-7'"),
])
def test_a_mistake_is_named_with_its_key(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, TelegramSection)


@pytest.mark.parametrize("table", [{}, {"owner": False}, {"key_file": "f", "key_env": "E"},
                                   {"key_file": "f", "owner": True}])
def test_a_person_has_one_key(table: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="key_file: name the file"):
        msgspec.convert(table, PersonSection)
