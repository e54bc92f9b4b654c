"""The transport of a credential: an API key or an issuer's token as a bearer, a login with a one-time code in two
halves."""

from __future__ import annotations

LOGIN_PREFIX = "ilc_"
"""Prefix of a stored login with a code. It is never sent in this form."""


def login_credential(half: str, cookie_name: str, cookie: str) -> str:
    """Join the halves of a login, as returned by `openBrowserSession`, into one text to store (J-15)."""
    return f"{LOGIN_PREFIX}{half}~{cookie_name}={cookie}"


def credential_headers(credential: str) -> dict[str, str]:
    """Return the headers of a request that carries this credential."""
    if not credential.startswith(LOGIN_PREFIX):
        return {"Authorization": f"Bearer {credential}"}
    half, _, cookie = credential.removeprefix(LOGIN_PREFIX).partition("~")
    return {"Interlock-Browser": half, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
