"""The tables of the config file for a Telegram bot."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.config.service_url import check_service_url

API_URL = "https://api.telegram.org"


class PersonSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[telegram.people.ID]`: a person by their Telegram id, and the key for their messages and votes."""

    key_file: str | None = None
    key_env: str | None = None
    owner: bool = False
    """The owner key of this state directory."""

    def __post_init__(self) -> None:
        if sum((self.key_file is not None, self.key_env is not None, self.owner)) != 1:
            raise ValueError("key_file: name the file that holds the person's key, or the variable with key_env, or "
                             "say owner = true for the owner key of this state directory")


class TelegramSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[telegram]`: a bot, the people who may write to it, and where approvals are shown."""

    token_file: str | None = None
    token_env: str | None = None
    api_url: str = API_URL
    groups: Literal["mention", "all"] = "mention"
    ask: list[int] | None = None
    people: dict[str, PersonSection] = {}

    def __post_init__(self) -> None:
        if (self.token_file is None) == (self.token_env is None):
            raise ValueError("token_file: name the file that holds the bot's token, or the variable with token_env")
        check_service_url(self.api_url)
        for name in self.people:
            if not name.isascii() or not name.isdigit():
                raise ValueError(f"people: {name!r} is not a Telegram id, which is a number; the bot answers a "
                                 "stranger with theirs")
