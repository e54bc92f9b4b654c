"""A login is renewed before it ends, once, and a failed renewal ends it only when the token has ended (Y-11)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.cli.link import contexts, renewal
from interlock.cli.link.contexts import Context, LoginRenewal
from interlock.cli.link.renewal import MARGIN_MS, fresh, is_due, renewed_from
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("Y-11")


def now_ms() -> int:
    return int(time.time() * 1000)


def context(**fields: Any) -> Context:
    base = {"name": "work", "url": "https://g.example", "credential": "old", "means": "issuer", **fields}
    return Context(**base)


def stored(state: Path, one: Context) -> Context:
    state.mkdir(exist_ok=True, mode=0o700)
    with contexts.changing(state):
        contexts.write(state, contexts.read(state).with_(one))
    return one


def renewable(**fields: Any) -> Context:
    kept = LoginRenewal("https://i.example/token", "cli", "refresh", "access_token")
    return context(renewal=kept, issuer="https://i.example", **fields)


def test_a_login_is_due_a_minute_or_a_fifth_of_its_life_before_its_end() -> None:
    long, short = now_ms() + 3_600_000, now_ms() + 10_000

    assert renewed_from(None) is None
    assert renewed_from(long) == long - MARGIN_MS
    assert short - 2_000 <= (renewed_from(short) or 0) < short
    assert not is_due(context())
    assert not is_due(context(renew_ms=now_ms() + 60_000))
    assert is_due(context(renew_ms=now_ms() - 1))


def test_a_valid_login_is_returned_and_one_that_cannot_be_renewed_is_reported(tmp_path: Path) -> None:
    good = context(renew_ms=now_ms() + 60_000)
    assert fresh(good, tmp_path) is good
    with pytest.raises(Trouble, match="logged out of work"):
        fresh(context(credential=""), tmp_path)
    with pytest.raises(Trouble, match="has ended") as ended:
        fresh(context(renew_ms=1, ends_ms=1), tmp_path)
    assert "interlock login --on work" in ended.value.remedy


def test_a_due_login_is_renewed_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = stored(tmp_path, renewable(renew_ms=1, ends_ms=now_ms() + 1_000))
    monkeypatch.setattr(renewal, "_renew", lambda one, _state: msgspec.structs.replace(
        one, credential="new", renew_ms=now_ms() + 60_000))

    assert fresh(due, tmp_path).credential == "new"
    found = contexts.read(tmp_path).find("work")
    assert found is not None
    assert found.credential == "new"


def test_a_login_that_another_process_renewed_is_used_unchanged(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = renewable(renew_ms=1, ends_ms=now_ms() + 1_000)
    stored(tmp_path, msgspec.structs.replace(due, credential="theirs", renew_ms=now_ms() + 60_000))

    def never(_one: Context, _state: Path) -> Context:
        raise AssertionError("it was renewed twice")

    monkeypatch.setattr(renewal, "_renew", never)
    assert fresh(due, tmp_path).credential == "theirs"


@pytest.mark.parametrize(("code", "ends_in_ms", "kept"), [
    ("UpstreamError", 60_000, True), ("UpstreamError", -1, False), ("Unauthorized", 60_000, False)])
def test_an_absent_issuer_costs_a_login_only_after_its_expiry(
        code: str, ends_in_ms: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = stored(tmp_path, renewable(renew_ms=1, ends_ms=now_ms() + ends_in_ms))

    def refused(_one: Context, _state: Path) -> Context:
        raise Trouble(code, "The issuer said no.")

    monkeypatch.setattr(renewal, "_renew", refused)
    if kept:
        assert fresh(due, tmp_path).credential == "old"
    else:
        with pytest.raises(Trouble, match="said no") as trouble:
            fresh(due, tmp_path)
        assert "interlock login" in trouble.value.remedy
