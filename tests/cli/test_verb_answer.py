"""Output of verbs for the gateway's response: JSON as it was sent, a table, or the sentence if there is nothing
(G-7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import answer, problem
from cli.tasks.test_follower import AT
from interlock.cli.access import keys, signing_keys, tenants
from interlock.cli.exit_status import ExitStatus
from interlock.cli.operations import runners, webhooks
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("G-7")
RUNNER = {"runner_id": "rnr_01K9", "device_name": "box\x1b[2J", "status": "online", "created_at": AT, "last_seen": AT,
          "revoked": False, "of_a_later_version": 1}
KEY = {"key_id": "key_01K9", "tenant_id": "t", "principal": {"type": "user", "id": "ann"}, "roles": ["operator"],
       "label": "", "created_at": AT, "expires_at": None, "last_used_at": None, "revoked": False}


def test_a_list_is_a_table_or_the_gateways_json(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted({"GET /v1/runners": [answer({"runners": [RUNNER]})]})
    assert runners.runners(where=where) == ExitStatus.DONE
    printed = capsys.readouterr().out
    assert printed.split("\n")[0].split() == ["RUNNER", "HOST", "STATUS", "LAST", "SEEN", "PAIRED"]
    assert "\x1b" not in printed
    assert runners.runners(json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == {"runners": [RUNNER]}


@pytest.mark.parametrize(("verb", "path", "name", "sentence"), [
    (runners.runners, "runners", "runners", "no runner is paired"), (keys.keys, "keys", "keys", "there is no key"),
    (webhooks.webhooks, "webhooks", "webhooks", "or [apprise.NAME]"),
    (webhooks.dead, "webhooks/deliveries", "deliveries", "no notice is lost; those on the way: interlock webhooks"),
    (signing_keys.signing_keys, "signing-keys", "signing_keys", "no key signs votes yet"),
])
def test_an_empty_list_prints_a_sentence_beside_the_result(
    verb: Any, path: str, name: str, sentence: str, scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, where = scripted({f"GET /v1/{path}": [answer({name: []})]})
    assert verb(where=where) == ExitStatus.DONE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err


def test_an_empty_list_without_a_sentence_prints_its_headings(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, where = scripted({"GET /v1/tenants": [answer({"tenants": []})]})
    assert tenants.tenants(where=where) == ExitStatus.DONE
    assert capsys.readouterr() == ("TENANT  NAME  STATE  CREATED\n", "")


def test_a_change_resolves_a_prefix(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted({"GET /v1/keys": [answer({"keys": [KEY]})],
                              "POST /v1/keys/key_01K9/revoke": [answer({**KEY, "revoked": True})]})
    assert keys.revoke("01k", tenant="acme", where=where) == ExitStatus.DONE
    assert capsys.readouterr().out == "key_01K9 (ann) is revoked\n"
    assert dict(script.asked[0].url.params) == {"tenant": "acme"}
    assert script.asked[1].headers["Idempotency-Key"].startswith("cli-")
    assert keys.revoke("key_01K9", json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == {**KEY, "revoked": True}


def test_a_key_that_was_rotated_with_itself_names_the_way_back(scripted: Any) -> None:
    _, where = scripted({"GET /v1/keys": [answer({"keys": [KEY]})],
                         "POST /v1/keys/key_01K9/rotate": [problem(401, "Unauthorized", "The key is not valid.")]})
    with pytest.raises(Trouble) as refused:
        keys.rotate("key_01K9", where=where)
    assert refused.value.code == "Unauthorized"
    assert "the response with the new key was lost" in refused.value.sentence
    assert "interlock keys rotate key_01K9" in refused.value.remedy


def test_a_new_token_is_printed_with_its_destination(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"runner_id": "rnr_01K9", "token": "irt_new"}
    _, where = scripted({"GET /v1/runners": [answer({"runners": [RUNNER]})],
                         "POST /v1/runners/rnr_01K9/rotate": [answer(made)]})
    for as_json in (False, True):
        assert runners.rotate("@last", json=as_json, where=where) == ExitStatus.DONE
        printed = capsys.readouterr()
        assert (json.loads(printed.out) == made) if as_json else (printed.out == "irt_new\n")
        assert "put it into runner/paired.token" in printed.err


def test_a_refusal_and_an_answer_from_another_program_are_reported(scripted: Any) -> None:
    _, where = scripted({"GET /v1/runners": [problem(403, "Forbidden", "this role may not"), answer({"other": 1})]})
    with pytest.raises(Trouble, match="this role may not"):
        runners.runners(where=where)
    with pytest.raises(Trouble, match="The answer to /v1/runners is not a gateway's"):
        runners.runners(where=where)
