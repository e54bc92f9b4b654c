"""The tables of chats, hooks and cron jobs (I-1, R-1, R-4): each mistake is one sentence that begins with its key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.chats import CronSection, HookSection, SessionSection

pytestmark = pytest.mark.req("R-4")
HOOK = {"secret_env": "HOOK"}
JOB = {"schedule": "0 9 * * 1-5", "message": "good morning"}


@pytest.mark.req("I-1", "R-1")
@pytest.mark.parametrize(("table", "sentence"), [
    ({"timeZone": "Mars/Base"}, "timeZone: there is no time zone 'Mars/Base'"), ({"timeZone": "../x"}, "timeZone"),
    ({"workspace": "src"}, "workspace: an absolute path"), ({"idleMinutes": 0}, r"\$\.idleMinutes"),
    ({"identityLinks": {"ann": ["telegram"]}}, "'telegram' of ann is not written channel:peer"),
    ({"identityLinks": {"ann": ["t:1"], "bob": ["t:1"]}}, "'t:1' appears twice"), ({"dm_scope": "main"}, "dm_scope"),
    ({"reset": {"atHour": 24}}, "atHour"), ({"resetByType": {"dm": {}}}, "resetByType"),
    ({"sendPolicy": {"rules": [{"chatType": "group"}]}}, "action"),
])
def test_a_mistake_of_the_session_table_is_named(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, SessionSection)


def test_the_names_are_those_of_the_session_store() -> None:
    read = msgspec.convert({"dmScope": "per-peer", "defaultAgent": "shell", "resetByType": {"thread": {"mode": "idle"}},
                            "identityLinks": {"ann": ["telegram:1", "slack:U1"]}}, SessionSection)
    assert (read.dm_scope, read.default_agent) == ("per-peer", "shell")
    assert read.reset_by_type["thread"].mode == "idle"
    assert SessionSection().send_policy.default == "allow"


@pytest.mark.parametrize(("table", "sentence"), [
    ({}, "secret_file: name the file"), ({**HOOK, "secret_file": "f"}, "secret_file: name the file"),
    ({**HOOK, "message": "{nothing}"}, "message: "), ({**HOOK, "auth": "basic"}, "auth"),
    ({**HOOK, "agent": "no/such"}, "agent: "), ({**HOOK, "key": "a b"}, "key: "),
    ({**HOOK, "workspace": "w"}, "workspace: "), ({**HOOK, "tenant": "No"}, "tenant: 'No'"),
])
def test_a_mistake_of_a_hook_is_named(table: dict[str, Any], sentence: str) -> None:
    assert msgspec.convert(HOOK, HookSection).signature_header == "X-Hub-Signature-256"
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, HookSection)


@pytest.mark.parametrize(("table", "sentence"), [
    ({"message": "x"}, "schedule"), ({**JOB, "schedule": "at noon"}, "schedule: "), ({**JOB, "message": ""}, "message"),
    ({**JOB, "schedule": "61 * * * *"}, "schedule: "), ({**JOB, "time_zone": "Nowhere"}, "time_zone: "),
    ({**JOB, "key": "x" * 1_000}, "key: "), ({**JOB, "every": "1h"}, "every"),
])
def test_a_mistake_of_a_job_is_named(table: dict[str, Any], sentence: str) -> None:
    assert msgspec.convert(JOB, CronSection).enabled
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, CronSection)
