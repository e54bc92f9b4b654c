"""The parts of a streamed answer: one event of JSON without blanks, and ids as the providers make them."""

import json
import re

import pytest

from interlock.model_stand_in.pieces import compact, fresh_id, sse


@pytest.mark.parametrize(("event", "text"), [
    (None, 'data: {"a":"é\\n"}\n\n'), ("x", 'event: x\ndata: {"a":"é\\n"}\n\n')])
def test_an_event_is_one_line_of_json_with_any_text(event: str | None, text: str) -> None:
    assert sse({"a": "é\n"}, event).decode() == text


def test_json_has_no_blanks_and_reads_back() -> None:
    value = {"a": [1, {"b": None}], "c": "한 글"}
    assert " " not in compact(value).replace("한 글", "")
    assert json.loads(compact(value)) == value


def test_an_id_has_its_prefix_and_is_unique() -> None:
    ids = {fresh_id("msg") for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"msg_[0-9a-f]{16}", one) for one in ids)
