"""How long the command line waits before it sends a request again: the library's own rule (M-1, K-3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from cli.scripted import URL, Script, answer, link_to, problem
from interlock.backends.sqlite.lock import lock_state
from interlock.cli.access import context_verbs
from interlock.cli.config.place import GATEWAY_FILE, GatewayFile, Where
from interlock.cli.display import progress
from interlock.cli.exit_status import ExitStatus
from interlock.cli.host import processes
from interlock.cli.host.up import take_lock
from interlock.cli.link.gateway_link import Address, GatewayLink, locate, start_remedy, unreachable
from interlock.cli.verb_error import Trouble
from interlock.protocol.problems import PROBLEMS
from interlock.sdk.exchange import NO_ANSWER, RETRY_AFTER_MAX_S

pytestmark = pytest.mark.anyio
Step = Callable[[httpx2.Request], httpx2.Response]


def refused(status: int, code: str, retry_after: str | None) -> Step:
    def step(request: httpx2.Request) -> httpx2.Response:
        response = problem(status, code, "Too many requests of this principal.")(request)
        if retry_after is not None:
            response.headers["Retry-After"] = retry_after
        return response
    return step


def proxys(status: int, retry_after: str | None = None) -> Step:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda _: httpx2.Response(status, text="<html>", headers=headers)


async def converse(state: Path, *steps: Step, method: str = "POST") -> tuple[list[float], Any]:
    """Send one request to a gateway that answers by these steps: the waits between, and what came of it."""
    (state / "owner.key").write_text("ilk_test\n")
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    script = Script({f"{method} /v1/commands": list(steps)})
    async with GatewayLink(Where(state=state, url=URL), httpx2.MockTransport(script), sleep=sleep) as link:
        try:
            came: Any = await (link.send("/v1/commands", {}) if method == "POST" else link.get("/v1/commands"))
        except Trouble as trouble:
            came = trouble
    assert len({request.headers.get("Idempotency-Key") for request in script.asked}) == 1
    return waited, came


@pytest.mark.req("K-3")
@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize(("code", "status"), [("RateLimited", 429), ("Unavailable", 503),
                                              ("IdempotencyKeyInUse", 409)])
async def test_a_client_waits_the_requested_time_and_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, status: int, method: str
) -> None:
    waited, came = await converse(tmp_path, refused(status, code, "30"), answer({}), method=method)
    assert (waited, came) == ([30.0], b"{}")
    assert "Too many requests of this principal. Sending it again in 30 s." in capsys.readouterr().err


@pytest.mark.req("C-4")
async def test_an_absent_gateway_is_reported_at_once_however_short_the_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = refused(503, "Unavailable", "2")
    assert (await converse(tmp_path, away, away, away, answer({})))[0] == [2.0, 2.0, 2.0]
    shown = capsys.readouterr().err
    assert ". Sending it again in 2 s." in shown, "two sentences, each with its stop"
    assert shown.count("Sending it again in 2 s.") == 1, "and not once more for each attempt"
    await converse(tmp_path, refused(429, "RateLimited", "2"), answer({}))
    assert "Sending it again" not in capsys.readouterr().err, "a short wait for a rate is not worth a line"


@pytest.mark.req("K-3")
async def test_a_wait_beyond_the_limit_ends_the_verb_with_that_time(tmp_path: Path) -> None:
    waited, came = await converse(tmp_path, proxys(503, str(int(RETRY_AFTER_MAX_S) + 1)))
    assert (waited, came.code) == ([], "HTTP 503")
    waited, came = await converse(tmp_path, refused(429, "RateLimited", "3600"))
    assert (waited, came.code, came.retry_after_s) == ([], "RateLimited", 3600)


@pytest.mark.parametrize("step", [proxys(503), proxys(429), proxys(502), refused(429, "QuotaExceeded", "30"),
                                  refused(500, "InternalError", None)])
async def test_a_refusal_without_a_retry_time_is_not_retried(tmp_path: Path, step: Step) -> None:
    waited, came = await converse(tmp_path, step)
    assert waited == []
    assert isinstance(came, Trouble)


async def test_a_proxys_refusal_with_a_retry_time_is_waited_for(tmp_path: Path) -> None:
    assert await converse(tmp_path, proxys(503, "2"), answer({})) == ([2.0], b"{}")


@pytest.mark.req("N-3", "W-2")
async def test_a_diagnosis_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "owner.key").write_text("ilk_test\n")
    script = Script({"GET /v1/status": [refused(503, "Unavailable", "2")]})
    async with GatewayLink(Where(state=tmp_path, url=URL), httpx2.MockTransport(script), retries=False) as link:
        with pytest.raises(Trouble, match="Too many requests"):
            await link.get("/v1/status")
    assert len(script.asked) == 1


def test_the_address_of_a_gateway_that_was_killed_receives_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file is left behind, and any program may listen there now."""
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    (tmp_path / "owner.key").write_text("ilk_1\n")
    (tmp_path / GATEWAY_FILE).write_bytes(msgspec.json.encode(GatewayFile("http://127.0.0.1:7420", os.getpid())))
    lock = lock_state(tmp_path)
    assert locate(Where(state=tmp_path)).key == "ilk_1"
    lock.release()
    with pytest.raises(Trouble, match="No gateway runs on"):
        locate(Where(state=tmp_path))
    with pytest.raises(Trouble, match="No gateway runs on"):
        processes.runner(where=Where(state=tmp_path))
    assert context_verbs.listing(state=tmp_path) == ExitStatus.DONE
    assert "none runs" in capsys.readouterr().out
    held = take_lock(tmp_path)  # It restarts the gateway at this address.
    assert locate(Where(state=tmp_path)).url == "http://127.0.0.1:7420"
    os.close(held)


def test_a_starting_gateway_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    with pytest.raises(Trouble, match="No gateway runs on"):
        locate(Where(state=tmp_path))
    held = take_lock(tmp_path)
    with pytest.raises(Trouble, match="is still starting"):
        locate(Where(state=tmp_path))
    os.close(held)


def test_a_gateway_that_up_restarts_gets_no_advice_to_start_it(tmp_path: Path) -> None:
    assert start_remedy(None) == "Start one with: interlock up"
    assert start_remedy(tmp_path) == f"Start one with: interlock up --state {tmp_path}"
    held = take_lock(tmp_path)
    assert start_remedy(tmp_path) == (f"`interlock up` (process {os.getpid()}) restarts it; try again in a few "
                                      "seconds, or see: interlock logs gateway")
    os.close(held)


def test_a_gateway_that_hangs_is_to_be_ended_before_anything_restarts_it(tmp_path: Path) -> None:
    address = Address("http://127.0.0.1:7420", "ilk_x", 4_321, state=tmp_path)
    assert unreachable(address, NO_ANSWER).remedy == (
        "See: interlock logs gateway. If it stays so, end it with `kill -9 4321`; start another with: interlock up.")
    held = take_lock(tmp_path)
    assert "`kill -9 4321`; `interlock up` restarts it." in unreachable(address, NO_ANSWER).remedy
    assert unreachable(address, "Connection refused").remedy == start_remedy(tmp_path)
    os.close(held)


def test_an_empty_url_is_not_another_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--url "$GATEWAY"`, and the variable is not set."""
    monkeypatch.setenv("INTERLOCK_URL", "http://127.0.0.1:7420")
    with pytest.raises(Trouble, match="'' is not the URL of a gateway"):
        locate(Where(state=tmp_path, url=""))


@pytest.mark.req("N-3", "G-3")
@pytest.mark.parametrize(("retries", "limit_s"), [(True, 60.0), (False, 10.0)])
async def test_a_verb_that_shows_the_current_state_waits_ten_seconds_and_another_a_minute(
        tmp_path: Path, retries: bool, limit_s: float) -> None:
    script = Script({"GET /v1/status": [answer({})]})
    async with link_to(script, tmp_path, retries=retries) as link:
        await link.get("/v1/status")
    assert script.asked[0].extensions["timeout"]["read"] == limit_s


@pytest.mark.req("G-7")
async def test_the_gateway_is_what_is_awaited_only_until_it_answers(tmp_path: Path) -> None:
    awaited: list[str] = []

    async def sleep(_: float) -> None:
        awaited.append(progress._SoFar.waiting)

    def observed(step: Step) -> Step:
        def asked(request: httpx2.Request) -> httpx2.Response:
            awaited.append(progress._SoFar.waiting)
            return step(request)
        return asked

    script = Script({"GET /v1/status": [observed(refused(503, "Unavailable", "2")), observed(answer({}))]})
    async with link_to(script, tmp_path, sleep=sleep) as link:
        await link.get("/v1/status")
    sentence = f"waiting for the gateway at {URL}"
    assert [*awaited, progress._SoFar.waiting] == [sentence, "", sentence, ""]


@pytest.mark.req("G-7", "K-1")
@pytest.mark.parametrize(("variable", "remedy"), [
    ("ilk_wrong", "Correct $INTERLOCK_KEY, or unset it to use your login or the state directory's key."),
    (None, "The key is that of owner.key in the state directory: name the gateway's with --state, or set "
           "$INTERLOCK_KEY."),
])
async def test_a_refused_key_is_named_by_where_it_is_from(
    variable: str | None, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is None:
        monkeypatch.delenv("INTERLOCK_KEY", raising=False)
    else:
        monkeypatch.setenv("INTERLOCK_KEY", variable)

    def refusing(request: httpx2.Request) -> httpx2.Response:
        refused = problem(401, "Unauthorized", "This credential is not known here.")(request)
        hint = PROBLEMS["Unauthorized"].hint
        return httpx2.Response(401, json={**refused.json(), "hint": hint})

    _, came = await converse(tmp_path, refusing)
    assert (came.sentence, came.remedy) == ("This credential is not known here.", remedy)
    _, own = await converse(tmp_path, problem(401, "Unauthorized", "The key is not known."))
    assert own.remedy == "Do this."
