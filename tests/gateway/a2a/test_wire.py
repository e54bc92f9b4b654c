"""A2A messages as clients send them: fields that are read, messages that are refused, and the error codes."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.gateway.a2a.wire import (
    KINDS,
    MAX_PARTS,
    PAGE_DEFAULT,
    A2AError,
    GatewayRefusal,
    ListRequest,
    PushConfig,
    SendRequest,
    TaskRequest,
    check_version,
    details_of,
    read,
)

pytestmark = pytest.mark.req("O-9")


def message(**fields: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]} | fields}


def test_a_message_is_read_with_its_defaults_and_unknown_members_are_ignored() -> None:
    request = read(SendRequest, message(extensions=["x"], contextId="c") | {"tenant": "t"})
    assert (request.message.message_id, request.message.context_id, request.message.task_id) == ("m", "c", "")
    assert request.message.parts[0].text == "hi"
    assert request.configuration.history_length is None
    assert not request.configuration.return_immediately
    assert request.metadata.interlock.workspace is None
    own = read(SendRequest, message() | {"metadata": {"other": 1, "interlock": {"workspace": "/w", "more": 1}}})
    assert own.metadata.interlock.workspace == "/w"


@pytest.mark.parametrize("wrong", [
    None, [], "x", {}, message(messageId=""), message(messageId="m" * 201), message(role="ROLE_AGENT"),
    message(role="user"), message(parts=[]), message(parts=[{"text": "x"}] * (MAX_PARTS + 1)),
    message(parts=[{"text": 1}]), message(contextId=None), message() | {"configuration": {"historyLength": -1}},
    message() | {"configuration": {"historyLength": "1"}}, message() | {"metadata": {"interlock": {"mode": ""}}},
], ids=lambda wrong: str(wrong)[:60])
def test_a_malformed_message_is_refused_in_one_sentence(wrong: Any) -> None:
    with pytest.raises(A2AError) as refused:
        read(SendRequest, wrong)
    assert refused.value.kind is KINDS["INVALID_PARAMS"]
    assert str(refused.value).startswith("The request is not valid: ")
    assert "\n" not in str(refused.value)


def test_a_part_distinguishes_null_data_from_absent_data() -> None:
    first, second = read(SendRequest, message(parts=[{"data": None}, {"text": ""}])).message.parts
    assert first.data is None
    assert second.data is not None
    assert second.text == ""


def test_numbers_are_text_in_a_query_and_numbers_in_a_body() -> None:
    assert read(ListRequest, {"pageSize": "7", "includeArtifacts": "true"}, from_query=True).page_size == 7
    assert read(ListRequest, {}).page_size == PAGE_DEFAULT
    assert read(TaskRequest, {"id": "t", "historyLength": "0"}, from_query=True).history_length == 0
    for wrong in ({"pageSize": "7"}, {"pageSize": 0}, {"pageSize": 101}, {"pageSize": 1.5},
    {"includeArtifacts": "true"}):
        with pytest.raises(A2AError):
            read(ListRequest, wrong)


@pytest.mark.parametrize("fields", [{"token": "a\r\nX-Evil: 1"}, {"token": "a b"}, {"token": "é"}, {"token": "a\n"},
                                    {"authentication": {"scheme": "Bearer\n"}}, {"authentication": {"scheme": "1"}},
                                    {"authentication": {"scheme": "Bearer", "credentials": "a\x00"}},
                                    {"authentication": {"scheme": "Bearer", "credentials": "a\n"}},
                                    {"url": ""}, {"id": "x" * 201}])
def test_header_values_of_a_client_cannot_inject_a_header(fields: dict[str, Any]) -> None:
    good = {"url": "https://a.example", "id": "", "token": "t" * 2_048, "authentication": {"scheme": "Bearer"}}
    assert read(PushConfig, good).authentication is not None
    with pytest.raises(A2AError):
        read(PushConfig, good | fields)


@pytest.mark.parametrize("declared", ["1.0", "1", "1.7"])
def test_supported_versions_are_accepted(declared: str) -> None:
    check_version(declared)


@pytest.mark.parametrize(("declared", "named"), [("", "0.3 (it declares none)"), ("0.3", "0.3"), ("2.0", "2.0"),
                                                 ("10.0", "10.0"), ("v1", "v1")])
def test_unsupported_versions_are_named(declared: str, named: str) -> None:
    with pytest.raises(A2AError, match=r"Send `A2A-Version: 1\.0`") as refused:
        check_version(declared)
    assert f"the request is of {named}. " in str(refused.value)
    assert refused.value.kind.code == -32009


def test_error_details_have_reason_domain_and_metadata() -> None:
    assert details_of(A2AError("TASK_NOT_FOUND", "Gone.")) == [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]
    assert details_of(A2AError("TASK_NOT_FOUND", "Gone.", task="t"))[0]["metadata"] == {"task": "t"}
    assert details_of(GatewayRefusal(409, "session_busy", "Busy."))[0] == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "session_busy", "domain": "interlock"}


@pytest.mark.parametrize(("status", "grpc", "over_http"), [
    (401, "UNAUTHENTICATED", True), (403, "PERMISSION_DENIED", True), (404, "NOT_FOUND", False), (409, "ABORTED",
    False),
    (422, "INVALID_ARGUMENT", False), (429, "RESOURCE_EXHAUSTED", True), (500, "INTERNAL", False),
    (502, "INTERNAL", False), (503, "UNAVAILABLE", True)])
def test_a_refusal_of_the_gateway_keeps_its_status_and_its_headers(status: int, grpc: str, over_http: bool) -> None:
    refusal = GatewayRefusal(status, "code", "No.", ((b"retry-after", b"1"),))
    assert refusal.kind == (-32000, status, grpc, "code")
    assert refusal.over_http is over_http
    assert refusal.headers == ((b"retry-after", b"1"),)


def test_no_two_kinds_of_errors_share_a_code() -> None:
    assert len({kind.code for kind in KINDS.values()}) == len(KINDS)
