"""`[slack]` (O-12): two tokens, each from one place, people and channels by their IDs, and an address with TLS."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.slack import API_URL, SlackSection

pytestmark = pytest.mark.req("O-12")
APP = {"bot_token_file": "bot", "app_token_env": "APP"}


def test_a_valid_table_is_read() -> None:
    read = msgspec.convert({**APP, "ask": ["C012AB3CD", "U0AB"], "people": {"U012AB3CD": {"owner": True}}},
    SlackSection)
    assert (read.api_url, list(read.people)) == (API_URL, ["U012AB3CD"])


@pytest.mark.parametrize(("table", "sentence"), [
    ({}, "bot_token_file: "), ({"bot_token_file": "b"}, "app_token_file: "), ({**APP, "bot_token_env": "B"},
    "bot_token_file"),
    ({**APP, "api_url": "http://slack.example/"}, "api_url: an https URL"), ({**APP, "ask": ["#general"]},
    "ask: '#general'"),
    ({**APP, "people": {"ann": {"owner": True}}}, "people: 'ann' is not a Slack member ID"),
    ({**APP, "people": {"C012AB3CD": {"owner": True}}}, "people: 'C012AB3CD'"),
    ({**APP, "people": {"U012AB3CD": {}}}, "key_file: "), ({**APP, "people": {"U012AB3CD\n": {"owner": True}}},
    "people: "),
    ({**APP, "people": {"U012AB3CD": {"owner": True, "key_env": "K"}}}, "key_file: "),
])
def test_a_mistake_is_named_with_its_key(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, SlackSection)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api/", "http://localhost/", "http://[::1]:9/"])
def test_a_server_on_this_host_needs_no_tls(url: str) -> None:
    assert msgspec.convert({**APP, "api_url": url}, SlackSection).api_url == url
