"""The requests that the server received: in order, bounded, and awaitable."""

from __future__ import annotations

import threading

import pytest

from interlock.model_stand_in.conversation import ModelPrompt
from interlock.model_stand_in.request_log import MAX_RECORDED, RecordedRequest, Recording, RequestKind, WireForm


def request(prompt: str, kind: RequestKind = RequestKind.TURN) -> RecordedRequest:
    asked = ModelPrompt(prompt, 0, (), False, "m", kind is RequestKind.SIDE)
    return RecordedRequest(WireForm.CHAT, kind, {}, {"input": prompt}, asked)


def test_requests_are_kept_in_order_and_side_requests_separately() -> None:
    log = Recording()
    for one in (request("a"), request("title", RequestKind.SIDE), request("é")):
        log.add(one)
    assert [one.asked.prompt for one in log.all()] == ["a", "title", "é"]
    assert [one.asked.prompt for one in log.turns()] == ["a", "é"]
    assert log.contained("é")
    assert not log.contained("b")


def test_the_oldest_request_is_removed() -> None:
    log = Recording()
    for number in range(MAX_RECORDED + 1):
        log.add(request(str(number)))
    assert (len(log.all()), log.all()[0].asked.prompt) == (MAX_RECORDED, "1")


def test_fetched_pages_are_recorded() -> None:
    log = Recording()
    log.visit("mark")
    assert (log.visited("mark"), log.visited("other")) == (True, False)


def test_a_later_request_resumes_its_waiter() -> None:
    log, found = Recording(), list[str]()

    def wait() -> None:
        found.append(log.wait_for(lambda one: one.asked.prompt == "b").asked.prompt)

    waiting = threading.Thread(target=wait)
    waiting.start()
    log.add(request("a"))
    log.add(request("b"))
    waiting.join()
    assert found == ["b"]
    with pytest.raises(TimeoutError):
        log.wait_for(lambda one: one.asked.prompt == "c", timeout_seconds=0)
