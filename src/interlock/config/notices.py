"""The tables of the config file for one-way notices to approvers (O-11)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from interlock.protocol.access import TENANT_ID

NOTICE_TABLES = ("ntfy", "apprise")
"""The tables of `Config` that hold a `NoticeSection` by name: add a new kind of notice here."""
CONTACT_CHARS = 256


class NoticeSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common keys of these tables."""

    tenant: str = "default"
    details: bool = False
    """Whether the request itself is in the notice."""

    @property
    def variable(self) -> str | None:
        """Return the variable of the gateway's environment that holds its secret, if any."""
        return None

    def __post_init__(self) -> None:
        if TENANT_ID.fullmatch(self.tenant) is None:
            raise ValueError(f"tenant: {self.tenant!r} is not a tenant's id")


class PushSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[push]`: approvers are notified in their browsers, through the push services of these (J-18)."""

    contact: str
    details: bool = False
    """Whether the request itself is in the notice."""

    def __post_init__(self) -> None:
        if not self.contact.startswith(("mailto:", "https://")) or not self.contact.isprintable() or (
                len(self.contact) > CONTACT_CHARS or self.contact in ("mailto:", "https://")):
            raise ValueError("contact: an address of yours for the push services, such as mailto:ops@example.org")


class NtfySection(NoticeSection, frozen=True, kw_only=True):
    """`[ntfy.NAME]`: a topic where approvers of a tenant are notified (O-11)."""

    url: str
    token_file: str | None = None
    token_env: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=1, le=5)] = 4

    @property
    def variable(self) -> str | None:
        """Return the variable that holds the access token."""
        return self.token_env

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token_file is not None and self.token_env is not None:
            raise ValueError("token_file: name the file that holds the token, or the variable with token_env, not both")


class AppriseSection(NoticeSection, frozen=True, kw_only=True):
    """`[apprise.NAME]`: a service that Apprise reaches, where approvers of a tenant are notified (O-11)."""

    url_file: str | None = None
    url_env: str | None = None

    @property
    def variable(self) -> str | None:
        """Return the variable that holds the URL."""
        return self.url_env

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.url_file is None) == (self.url_env is None):
            raise ValueError("url_file: name the file that holds the Apprise URL, or the variable with url_env")
