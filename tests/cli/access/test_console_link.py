"""The login link of a browser: the code is in the fragment, and this host is named localhost for passkeys."""

from __future__ import annotations

import pytest

from interlock.cli.access.console_link import link_for, qr_code


@pytest.mark.req("J-10")
@pytest.mark.parametrize(("url", "link"), [
    ("http://127.0.0.1:8642", "http://localhost:8642/console/#CODE"),
    ("http://[::1]:8642", "http://localhost:8642/console/#CODE"),
    ("http://127.0.0.1", "http://localhost/console/#CODE"),
    ("https://gateway.example:8443/v1", "https://gateway.example:8443/console/#CODE"),
])
def test_the_code_is_in_the_fragment_and_loopback_is_called_localhost(url: str, link: str) -> None:
    assert link_for(url, "CODE") == link


@pytest.mark.req("J-10")
def test_a_qr_code_is_drawn_only_if_the_terminal_can_show_it() -> None:
    text = "http://localhost:8642/console/#CODE"

    assert "█" in qr_code(text, "utf-8") or "▀" in qr_code(text, "utf-8")
    assert qr_code(text, "ascii") == qr_code(text, None) == ""
