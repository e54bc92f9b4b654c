"""A gateway's URL as typed: checked before any request, and stored without its slash."""

import pytest

from interlock.cli.link.gateway_url import checked_url
from interlock.cli.verb_error import Trouble


@pytest.mark.parametrize(("text", "url"), [
    ("http://127.0.0.1:7420", "http://127.0.0.1:7420"), ("https://gw.example/base/", "https://gw.example/base"),
    ("http://[::1]:7420/", "http://[::1]:7420"), ("HTTPS://GW.example", "HTTPS://GW.example"),
])
def test_a_valid_url_loses_only_its_slash(text: str, url: str) -> None:
    assert checked_url(text) == url


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "is not the URL"), ("gw.example", "is not the URL"), ("gw.example:7420", "is not the URL"), ("ftp://gw",
    "is not the URL"),
    ("http://", "is not the URL"), ("http://gw:0", "is not the URL"), ("http://gw:99999", "is not a URL"),
    ("http://gw:x", "is not a URL"),
    ("http://[::1", "is not a URL"), ("http://u:p@gw", "carries no name"), ("http://gw/?a=1", "carries no name"),
    ("http://gw/#a", "carries no name"),
])
def test_an_invalid_url_gives_one_sentence_with_a_remedy(text: str, sentence: str) -> None:
    with pytest.raises(Trouble, match=sentence) as caught:
        checked_url(text)
    assert caught.value.status == 2
    assert caught.value.remedy
    assert "p@" not in caught.value.line(), "a password is not repeated"


@pytest.mark.parametrize(("text", "meant"), [
    ("ws://127.0.0.1:7423/rawp", "http://127.0.0.1:7423"),
    ("wss://gw.example/rawp", "https://gw.example"),
    ("ws://[::1]:7423/", "http://[::1]:7423"),
    ("localhost:7423", "http://localhost:7423"),
    ("gw.example:443", "https://gw.example:443"),
    ("gateway", "http://127.0.0.1:7420"),
    ("ftp://gw.example", "http://127.0.0.1:7420"),
])
def test_the_remedy_for_an_invalid_url_is_the_one_that_was_meant(text: str, meant: str) -> None:
    with pytest.raises(Trouble) as caught:
        checked_url(text)
    assert caught.value.remedy == f"Write it as {meant}"
