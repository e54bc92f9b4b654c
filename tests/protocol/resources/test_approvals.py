"""Votes and keys for votes (P-2, P-4, J-17): the fields of a body, and the bytes that stay unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.resources.approvals import AnswerBody, GrantBody, PasskeyBody, SigningKeyBody

ASSERTION = {"authenticator_data": "a", "client_data_json": "b", "signature": "c"}
PASSKEY = {"credential_id": "abc_-9", "public_key": "k", "at": "t", "assertion": ASSERTION}


@pytest.mark.req("P-2")
def test_a_plain_vote_is_a_decision_and_nothing_else() -> None:
    vote = msgspec.convert({"decision": "grant"}, GrantBody)
    assert (vote.method, vote.remember, vote.updated_input) == ("acl", None, msgspec.UNSET)
    assert msgspec.json.encode(vote) == b'{"decision":"grant"}'


@pytest.mark.req("P-2")
def test_a_changed_input_is_approved_as_its_received_bytes() -> None:
    raw = b'{"decision":"grant","updated_input":{ "b":1.0,"a":"\\u00e9" }}'
    vote = msgspec.json.decode(raw, type=GrantBody)
    assert bytes(vote.updated_input) == b'{ "b":1.0,"a":"\\u00e9" }'


@pytest.mark.req("P-2", "P-4")
@pytest.mark.parametrize("wrong", [
    {}, {"decision": "yes"}, {"decision": "Grant"}, {"decision": "grant", "method": "password"},
    {"decision": "grant", "by": "user:ann"}, {"decision": "grant", "assertion": {"signature": "s"}},
    {"decision": "grant", "assertion": {**ASSERTION, "signature": "s" * 2_049}},
    {"decision": "grant", "remember": "always"},
])
def test_a_malformed_vote_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, GrantBody)


@pytest.mark.req("J-17")
@pytest.mark.parametrize("credential_id", ["", "a b", "a+b", "a=", "a\n", "x" * 2_049])
def test_a_credential_is_named_in_base64url(credential_id: str) -> None:
    assert msgspec.convert(PASSKEY, PasskeyBody).credential_id == "abc_-9"
    with pytest.raises(msgspec.ValidationError, match="credential_id"):
        msgspec.convert({**PASSKEY, "credential_id": credential_id}, PasskeyBody)


def test_a_question_is_declined_by_null_and_not_by_an_absent_field() -> None:
    assert msgspec.convert({"text": None}, AnswerBody).text is None
    with pytest.raises(msgspec.ValidationError, match="missing required field `text`"):
        msgspec.convert({}, AnswerBody)


def test_a_label_has_a_bounded_length() -> None:
    assert msgspec.convert({"public_key": "k", "label": "x" * 128}, SigningKeyBody).label == "x" * 128
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"public_key": "k", "label": "x" * 129}, SigningKeyBody)
