"""Bodies and cursors by themselves: strict at any size."""

import hashlib
import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.gateway.rest import cursors
from interlock.gateway.rest.request.idempotency import claim_of
from interlock.gateway.rest.request.json_body import (
    MAX_ERRORS,
    THREAD_BYTES,
    _plain,
    parse_json,
    pointer_of,
    read,
    read_json,
)
from interlock.gateway.rest.routes import media_ranges
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

ME = Principal(tenant_id="t", actor=Actor(type="user", id="me"), role="owner", key_id="k")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12,
)


@pytest.mark.req("M-1")
@given(JSON)
def test_one_value_has_one_fingerprint_however_it_is_written(value: object) -> None:
    plain, spaced = json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    one, two = (claim_of(ME, "POST", "/commands", "k", read(text.encode()).form) for text in (plain, spaced))
    assert one == two


@pytest.mark.req("M-1")
@given(JSON)
def test_the_fingerprint_is_that_of_the_rfc_8785_form(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    claim = claim_of(ME, "POST", "/commands", "k", read(compact).form)
    assert claim.fingerprint == hashlib.sha256(rfc8785.dumps(json.loads(compact))).hexdigest()


@pytest.mark.req("M-1")
@pytest.mark.parametrize("body", [
    '{"a":1,"a":1}', '{"a":{"b":1,"b":1}}', '{"a":9007199254740992}', '{"a":1e999}', '{"a":"\\ud800"}',
    "[" * 65 + "]" * 65, '{"a":NaN}', '{"a":1,}',
])
def test_canonical_and_other_forms_are_parsed_equally_strictly(body: str) -> None:
    for text in (body.encode(), b" " + body.encode(), b'["\xff",' + body.encode() + b"]"):
        with pytest.raises(Problem):
            parse_json(text)


@pytest.mark.req("M-1")
def test_the_scope_names_tenant_principal_method_path_and_key() -> None:
    other = Principal(tenant_id="u", actor=ME.actor, role="owner", key_id="k")
    scopes = {claim_of(*given, b"{}").scope for given in (
        (ME, "POST", "/a", "k"), (other, "POST", "/a", "k"), (ME, "PUT", "/a", "k"), (ME, "POST", "/b", "k"),
        (ME, "POST", "/a", "l"),
    )}
    assert len(scopes) == 5


@pytest.mark.anyio
async def test_a_large_body_is_read_off_the_loop_and_just_as_strictly() -> None:
    large = b'{"a":"' + b"x" * THREAD_BYTES + b'","a":1}'
    with pytest.raises(Problem) as caught:
        await read_json(large)
    assert caught.value.errors[0].pointer == "/a"


def test_sixteen_digits_are_an_integer_within_2_53_or_refused() -> None:
    assert parse_json(b'{"n":9007199254740991}') == {"n": 2**53 - 1}
    with pytest.raises(Problem, match="beyond") as caught:
        parse_json(b'{"n":9007199254740992}')
    assert [place.pointer for place in caught.value.errors] == ["/n"]
    assert parse_json(b'{"n":"9007199254740992"}') == {"n": "9007199254740992"}


def test_mistakes_are_counted_up_to_a_bound() -> None:
    with pytest.raises(Problem) as caught:
        parse_json(b"[" + b",".join([b"9007199254740993"] * 100) + b"]")
    assert len(caught.value.errors) == MAX_ERRORS
    with pytest.raises(Problem, match="beyond"):
        parse_json(b"9" * 5000)


def test_pointers_escape_what_json_pointer_escapes() -> None:
    assert pointer_of("$.a[0].b") == "/a/0/b"
    assert pointer_of("$") == ""
    with pytest.raises(Problem) as caught:
        parse_json(b'{"a/b~c":{"\\ud800":1}}')
    assert caught.value.errors[0].pointer == "/a~1b~0c"


@pytest.mark.req("S-1", "S-2")
@given(st.text(max_size=40))
def test_only_an_issued_cursor_is_accepted(text: str) -> None:
    made = [cursors.stream_cursor("s/1", 7), cursors.cursor("s/1", 7)]  # The second is of a version before 1.0.
    assert [cursors.number("s/1", one) for one in made] == [7, 7]
    for other in (text, made[0] + "x", "0" + made[0], made[0][:8] + "07", made[0][:8], made[0].upper()):
        if other not in made:
            with pytest.raises(Problem):
                cursors.number("s/1", other)
    for wrong in ("s/2", "c/1"):
        for one in made:
            with pytest.raises(Problem):
                cursors.number(wrong, one)


def test_accept_is_read_with_its_refusals() -> None:
    assert media_ranges([]) == {"*/*"}
    assert media_ranges(["text/html, application/json;q=0.0", "text/event-stream;q=0.5"]) == {
        "text/html", "text/event-stream"}


@pytest.mark.req("Y-18")
def test_only_sixteen_digits_in_a_row_need_careful_parsing() -> None:
    for body in (b'{"n":123456789012345}', b'[12345678,12345678]', b'{"text":"a long text without any digits"}'):
        assert _plain(body) == json.loads(body)
    for digit in b"0123456789":
        assert _plain(b'["%s"]' % (bytes([digit]) * 16)) is None
