"""The tables of the config file for a Slack app (O-12)."""

from __future__ import annotations

import re

import msgspec

from interlock.config.service_url import check_service_url
from interlock.config.telegram import PersonSection

API_URL = "https://slack.com/api/"
_PERSON = re.compile(r"[UW][A-Z0-9]{2,30}")
_CHAT = re.compile(r"[CDGUW][A-Z0-9]{2,30}")


class SlackSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[slack]`: an app, the people who may write to it, and where approvals are shown."""

    bot_token_file: str | None = None
    bot_token_env: str | None = None
    app_token_file: str | None = None
    app_token_env: str | None = None
    api_url: str = API_URL
    ask: list[str] | None = None
    people: dict[str, PersonSection] = {}

    def __post_init__(self) -> None:
        for name, file, variable in (("bot_token", self.bot_token_file, self.bot_token_env),
                                     ("app_token", self.app_token_file, self.app_token_env)):
            if (file is None) == (variable is None):
                raise ValueError(f"{name}_file: name the file that holds the token, or the variable with {name}_env")
        check_service_url(self.api_url)
        for name in self.people:
            if _PERSON.fullmatch(name) is None:
                raise ValueError(f"people: {name!r} is not a Slack member ID such as U012AB3CD; a "
                                 "profile's menu shows it")
        for chat in self.ask or ():
            if _CHAT.fullmatch(chat) is None:
                raise ValueError(f"ask: {chat!r} is not the ID of a channel or a member, such as C012AB3CD")
