"""Bodies with parameters of their path's operation: every unknown field is an error, and figures are bounded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.bodies import EntryBody, LandBody, PairBody, PairingBody, PruneBody, ReleaseBody, ReplayBody
from interlock.protocol.limits import PRUNE_MAX_MS, PRUNE_MIN_MS


def test_a_field_of_the_session_store_has_the_stores_name() -> None:
    body = msgspec.convert({"label": "night", "modelOverride": None, "authProfileOverride": "work",
                            "idempotency_key": "k"}, EntryBody)
    assert (body.label, body.model_override, body.auth_profile_override) == ("night", None, "work")
    assert body.idempotency_key == "k"
    assert body.verbose_level is msgspec.UNSET


@pytest.mark.req("I-4")
def test_null_clears_a_field_and_an_absent_one_stays() -> None:
    assert msgspec.to_builtins(EntryBody(model_override=None)) == {"modelOverride": None}


@pytest.mark.parametrize("body", [{"model_override": "x"}, {"Label": "x"}, {"label": 7}, {"label": "x" * 501},
                                  {"unknownFields": []}])
def test_another_spelling_or_type_of_a_field_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, EntryBody)


@pytest.mark.req("G-5")
@pytest.mark.parametrize(("older_than_ms", "good"), [
    (PRUNE_MIN_MS, True), (PRUNE_MAX_MS, True), (PRUNE_MIN_MS - 1, False), (PRUNE_MAX_MS + 1, False), ("1d", False),
])
def test_the_age_of_a_prune_is_bounded(older_than_ms: Any, good: bool) -> None:
    body = {"older_than_ms": older_than_ms}
    if good:
        assert msgspec.convert(body, PruneBody) == PruneBody(older_than_ms=older_than_ms)
    else:
        with pytest.raises(msgspec.ValidationError, match=r"\$\.older_than_ms"):
            msgspec.convert(body, PruneBody)


@pytest.mark.parametrize(("form", "body", "place"), [
    (PruneBody, {}, "older_than_ms"), (ReleaseBody, {}, "to"), (PairBody, {}, "code"),
    (PairBody, {"code": "x" * 65}, "code"), (PairingBody, {"device_name": "x" * 129}, "device_name"),
    (ReplayBody, {"sessions": 0}, "sessions"), (ReplayBody, {"sessions": 101}, "sessions"),
    (ReplayBody, {"calls": 1_001}, "calls"), (ReplayBody, {"rules": [{}] * 501}, "rules"),
    (LandBody, {"files": "a"}, "files"), (LandBody, {"file": ["a"]}, "file"),
])
def test_an_invalid_body_is_refused_with_its_place(form: Any, body: dict[str, Any], place: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"`{place}`|\\$\\.{place}"):
        msgspec.convert(body, form)


@pytest.mark.req("H-17")
def test_an_empty_list_selects_no_files_and_an_absent_list_all() -> None:
    assert msgspec.convert({}, LandBody).files is None
    assert msgspec.convert({"files": []}, LandBody).files == []
