"""Requests for approvals and votes (P-2, P-3, P-4, J-17): the method of a vote follows from what proves it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.protocol.resources import PasskeyAssertion, Remembering
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import approvals
from sdk.requests.asked import body, line

PROOF = PasskeyAssertion(authenticator_data="a", client_data_json="b", signature="c")


@pytest.mark.parametrize(("asked", "text"), [
    (approvals.listing(), "GET /v1/approvals"), (approvals.listing(state="pending", limit=5),
     "GET /v1/approvals?state=pending&limit=5"), (approvals.listing(decided=True), "GET /v1/approvals?decided=true"),
    (approvals.show("a"), "GET /v1/approvals/a"), (approvals.voted_bytes("a"), "GET /v1/approvals/a/input"),
    (approvals.rule("a", scope="rule", width="exact"), "GET /v1/approvals/a/rule?scope=rule&width=exact"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.req("P-2", "P-4", "J-17")
@pytest.mark.parametrize(("asked", "expected"), [
    (approvals.grant("a"), {"decision": "grant"}), (approvals.grant("a", digest="d"), {"decision": "grant",
    "digest": "d"}),
    (approvals.deny("a", comment="no"), {"decision": "deny", "comment": "no"}),
    (approvals.vote("a", "grant", signature="s", key_id="k", at="t"),
     {"decision": "grant", "method": "signature", "signature": "s", "key_id": "k", "at": "t"}),
    (approvals.vote("a", "grant", assertion=PROOF), {"decision": "grant", "method": "passkey", "assertion": {
        "authenticator_data": "a", "client_data_json": "b", "signature": "c"}}),
    (approvals.vote("a", "grant", updated_input={"command": "ls"}), {"decision": "grant",
    "updated_input": {"command": "ls"}}),
])
def test_a_vote_has_its_method_and_only_the_given_fields(asked: RequestSpec[Any], expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == ("POST /v1/approvals/a/grants", expected)


def test_a_null_input_is_a_changed_input_and_not_an_absent_one() -> None:
    assert b'"updated_input":null' in (approvals.vote("a", "grant", updated_input=None).body or b"")
    assert b"updated_input" not in (approvals.grant("a").body or b"")


@pytest.mark.req("A-9")
def test_a_vote_may_be_remembered() -> None:
    assert body(approvals.grant("a", remember=Remembering(scope="session")))["remember"]["scope"] == "session"


@pytest.mark.req("P-3")
def test_a_question_is_declined_by_null_and_a_vote_withdrawn() -> None:
    assert b'"text":null' in (approvals.answer("a", None).body or b"")
    assert body(approvals.answer("a", "yes")) == {"text": "yes"}
    assert line(approvals.withdraw("a")) == "POST /v1/approvals/a/withdrawals"
    assert line(approvals.revoke_signing_key("k")) == "POST /v1/signing-keys/k/revoke"
