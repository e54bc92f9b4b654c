"""The tables of one-way notices (O-11, J-18): one place for each secret, and a tenant that can be one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.notices import CONTACT_CHARS, AppriseSection, NtfySection, PushSection

pytestmark = pytest.mark.req("O-11", "J-18")


@pytest.mark.parametrize("contact", ["mailto:ops@example.org", "https://example.org/about"])
def test_a_push_service_gets_a_contact_address(contact: str) -> None:
    assert msgspec.convert({"contact": contact}, PushSection).contact == contact


@pytest.mark.parametrize("contact", ["", "ops@example.org", "mailto:", "https://", "http://example.org", "mailto:a\nb",
                                     "mailto:" + "a" * CONTACT_CHARS])
def test_an_invalid_contact_address_is_refused(contact: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="contact: an address of yours"):
        msgspec.convert({"contact": contact}, PushSection)


@pytest.mark.parametrize(("form", "table", "sentence"), [
    (NtfySection, {}, "url"), (NtfySection, {"url": "u", "priority": 0}, "priority"),
    (NtfySection, {"url": "u", "priority": 6}, "priority"), (NtfySection, {"url": "u", "tenant": "A"}, "tenant: 'A'"),
    (NtfySection, {"url": "u", "token_file": "f", "token_env": "E"}, "token_file: .* not both"),
    (AppriseSection, {}, "url_file: name the file"), (AppriseSection, {"url_file": "f", "url_env": "E"}, "url_file: "),
    (AppriseSection, {"url": "discord://x/y"}, "url"), (AppriseSection, {"url_env": "E", "tenant": ""}, "tenant: ''"),
])
def test_a_mistake_is_named_with_its_key(form: Any, table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, form)


def test_a_notice_contains_nothing_of_the_request_by_default() -> None:
    assert not NtfySection(url="https://ntfy.sh/topic").details
    assert NtfySection(url="https://ntfy.sh/topic").token_file is None, "a topic may be open"
    assert not PushSection(contact="mailto:a@b").details
