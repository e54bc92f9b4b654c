"""Approvers by a service of Apprise: an unusable URL, and a failure, are reported without its secrets (O-11)."""

from __future__ import annotations

from typing import Any

import pytest

apprise: Any = pytest.importorskip("apprise")

from interlock.channels.apprise_service import AppriseChannel  # noqa: E402
from interlock.ports.channel import NotAsked  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-11"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SECRET_URL = "json://user:secret@127.0.0.1:9/x"


def channel(url: str = SECRET_URL) -> AppriseChannel:
    return AppriseChannel(url, details=False, public_url=None)


async def test_a_url_without_a_known_service_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="not one that Apprise can use") as refused:
        channel("nonsense://user:secret@host")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("outcome", "sentence"), [
    (False, "Apprise could not send to json"), (RuntimeError(SECRET_URL), "Apprise failed with RuntimeError for json")])
async def test_a_notice_that_fails_is_reported_without_the_url(
        outcome: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = channel()

    def notify(**_named: Any) -> bool:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(made, "_notify", notify)
    with pytest.raises(NotAsked, match=sentence) as failed:
        await made.test("dlv_1", 0)
    assert "secret" not in str(failed.value)


async def test_a_test_message_has_a_title_and_names_no_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    made, sent = channel(), list[dict[str, str]]()

    def notify(**named: str) -> bool:
        sent.append(named)
        return True

    monkeypatch.setattr(made, "_notify", notify)
    await made.test("dlv_1", 0)
    assert sent[0]["title"]
    assert "apr_" not in sent[0]["body"]
