"""How a credential travels: a key as a bearer, a login with a code in two halves of which neither is enough (J-15)."""

import pytest

from interlock.sdk.credential import LOGIN_PREFIX, credential_headers, login_credential


@pytest.mark.parametrize("credential", ["ilk_abc", "eyJhbGciOi.J9.x", ""])
def test_a_key_and_an_issuers_token_are_bearers(credential: str) -> None:
    assert credential_headers(credential) == {"Authorization": f"Bearer {credential}"}


@pytest.mark.req("J-15")
def test_a_login_is_sent_as_a_header_and_a_cookie() -> None:
    kept = login_credential("half-1", "__Host-interlock", "a.b~c=d")
    assert kept.startswith(LOGIN_PREFIX)
    headers = credential_headers(kept)
    assert headers == {"Interlock-Browser": "half-1", "Cookie": "__Host-interlock=a.b~c=d",
                       "Sec-Fetch-Site": "same-origin"}
    assert not any(LOGIN_PREFIX in value for value in headers.values())
