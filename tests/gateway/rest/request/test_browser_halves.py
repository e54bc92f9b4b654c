"""A browser session is two halves that only the gateway's own pages send together (J-15)."""

from __future__ import annotations

import pytest

from interlock.gateway.rest.request.browser_halves import (
    browser_token,
    check_same_origin,
    cookie_name,
    cookie_of,
    set_cookie,
)
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.req("J-15")
NAME = cookie_name("gw_1")
HALF = "A" * 26 + ".header-half"


def request(**changes: tuple[str, ...] | None) -> dict[bytes, tuple[str, ...]]:
    whole = {"cookie": (f"{NAME}=cookie-half",), "interlock_browser": (HALF,), "sec_fetch_site": ("same-origin",),
             **changes}
    return {name.replace("_", "-").encode(): values for name, values in whole.items() if values is not None}


def test_both_halves_of_a_page_of_this_gateway_are_a_credential() -> None:
    token = browser_token(request(), NAME)  # type: ignore[arg-type]

    assert "cookie-half" in token
    assert "header-half" in token


@pytest.mark.parametrize("changes", [
    {"cookie": None}, {"cookie": ("other=cookie-half",)}, {"interlock_browser": None},
    {"interlock_browser": (HALF, HALF)}, {"interlock_browser": ("short",)}, {"authorization": ("Bearer x",)},
    {"sec_fetch_site": None}, {"sec_fetch_site": ("cross-site",)}, {"sec_fetch_site": ("same-site",)},
    {"sec_fetch_site": ("same-origin", "same-origin")},
], ids=str)
def test_a_missing_half_or_another_origin_is_refused(changes: dict[str, tuple[str, ...] | None]) -> None:
    with pytest.raises(Problem) as refused:
        browser_token(request(**changes), NAME)  # type: ignore[arg-type]

    assert refused.value.code == "Unauthorized"


@pytest.mark.parametrize(("lines", "found"), [
    ((f"a=b; {NAME}=half",), "half"), ((f"{NAME}=half", "a=b"), "half"),
    ((f"{NAME}=half; {NAME}=planted",), ""), ((f"{NAME}=half", f"{NAME}=planted"), ""),
    ((f"{NAME}=not a half",), ""), ((f"x{NAME}=half",), ""), ((), ""),
])
def test_a_cookie_that_is_sent_twice_is_ignored(lines: tuple[str, ...], found: str) -> None:
    assert cookie_of({b"cookie": lines}, NAME) == found  # type: ignore[dict-item]


def test_two_gateways_of_a_host_have_cookies_of_their_own() -> None:
    assert cookie_name("gw_1") != cookie_name("gw_2")


def test_a_request_that_no_browser_sent_passes_where_the_header_is_not_required() -> None:
    check_same_origin({}, required=False)
    with pytest.raises(Problem):
        check_same_origin({}, required=True)
    with pytest.raises(Problem):
        check_same_origin({b"sec-fetch-site": ("cross-site",)}, required=False)  # type: ignore[dict-item]


@pytest.mark.parametrize(("origin", "secure"), [
    ("https://g.example", True), ("http://localhost:1", False), (None, False)])
def test_a_cookie_is_secure_if_the_page_was_loaded_over_https(origin: str | None, secure: bool) -> None:
    headers = {b"origin": (origin,)} if origin is not None else {}

    line = set_cookie(headers, NAME, "half")  # type: ignore[arg-type]

    assert line.startswith(f"{NAME}=half; HttpOnly; SameSite=Strict; Path=/")
    assert ("; Secure" in line) is secure
    assert "Max-Age" not in line
    assert set_cookie(headers, NAME, "").endswith("; Max-Age=0")  # type: ignore[arg-type]
