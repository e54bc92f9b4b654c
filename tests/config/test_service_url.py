"""The servers to which a bot's token may be sent: over TLS, or on this host."""

from __future__ import annotations

import pytest

from interlock.config.service_url import check_service_url


@pytest.mark.parametrize("url", ["https://api.telegram.org", "https://bots.example:8443/api", "http://127.0.0.1:8081",
                                 "http://localhost/", "http://[::1]:8081", "http://127.9.9.9"])
def test_a_service_over_tls_or_on_this_host_is_accepted(url: str) -> None:
    check_service_url(url)


@pytest.mark.parametrize("url", [
    "http://api.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://127.0.0.1@evil.example",
    "http://127.0.0.1:80@evil.example", "http://[::1]@evil.example", "https://user:secret@api.example", "https://",
    "ftp://localhost", "localhost", ""])
def test_a_service_that_only_seems_to_be_on_this_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="api_url: an https URL without a user name"):
        check_service_url(url)


@pytest.mark.parametrize("url", ["http://[::1", "https://api.example:port"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL"):
        check_service_url(url)
