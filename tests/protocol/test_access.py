"""Roles (K-1): coverage, several written as one word, and the common roles of two credentials."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from interlock.protocol.access import (
    COVERED_ROLES,
    GIVEN_ROLES,
    KEY_LIFE_MAX_MS,
    PERSON_ID,
    TENANT_ID,
    BrowserSessionBody,
    KeyBody,
    PushSubscriptionBody,
    TicketBody,
    lesser_roles,
    named_roles,
    written_roles,
)

pytestmark = pytest.mark.req("K-1")


def allowed(roles: frozenset[str]) -> frozenset[str]:
    """Everything that a set of roles allows, as roles."""
    return frozenset[str]().union(*(COVERED_ROLES[role] for role in roles))


def test_each_role_covers_itself_and_the_viewers_and_no_key_has_a_runners() -> None:
    assert set(COVERED_ROLES) == set(GIVEN_ROLES)
    assert "runner" not in GIVEN_ROLES
    for role, covered in COVERED_ROLES.items():
        assert {role, "viewer"} <= covered
        assert all(COVERED_ROLES[below] <= covered for below in covered)


def test_only_an_owner_covers_an_owner() -> None:
    assert [role for role, covered in COVERED_ROLES.items() if "owner" in covered] == ["owner"]
    assert {role for role, covered in COVERED_ROLES.items() if "approver" in covered} == {"owner", "admin", "approver"}


@pytest.mark.parametrize(("roles", "written"), [
    ([], ""), (["viewer"], "viewer"), (["operator", "approver"], "approver+operator"),
    (["operator", "approver", "operator"], "approver+operator"),
])
def test_several_roles_are_written_as_one_word_in_any_order(roles: list[str], written: str) -> None:
    assert written_roles(roles) == written
    assert named_roles(written) == frozenset(roles)


def test_an_empty_word_is_not_a_role() -> None:
    assert named_roles(None) == named_roles("") == frozenset()


@pytest.mark.parametrize(("one", "other"), [*product(GIVEN_ROLES, repeat=2)])
def test_the_common_role_of_two_allows_no_more_than_either(one: str, other: str) -> None:
    lesser = lesser_roles([one], [other])
    assert lesser == lesser_roles([other], [one])
    assert allowed(lesser) <= COVERED_ROLES[one] & COVERED_ROLES[other]
    assert lesser == ({one} & COVERED_ROLES[other]) | ({other} & COVERED_ROLES[one])


@pytest.mark.parametrize(("one", "other", "lesser"), [
    ({"admin"}, {"operator", "approver"}, {"operator", "approver"}),
    ({"operator", "approver"}, {"approver", "auditor"}, {"approver"}),
    (set[str](), {"owner"}, set[str]()),
    ({"unheard-of"}, {"owner"}, set[str]()),
    ({"runner"}, {"owner"}, set[str]()),
])
def test_an_unknown_role_has_nothing_in_common_with_any(one: set[str], other: set[str], lesser: set[str]) -> None:
    assert lesser_roles(one, other) == lesser


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63])
def test_a_tenants_id_is_lower_case(name: str) -> None:
    assert TENANT_ID.fullmatch(name)


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a.b", "a" * 64, "a\n", "a/b", "ä"])
def test_a_path_or_upper_case_text_is_not_a_tenants_id(name: str) -> None:
    assert not TENANT_ID.fullmatch(name)


@pytest.mark.parametrize("name", ["user:ann", "", ".ann", "a b", "a" * 129, "ann\n", "a/b"])
def test_a_persons_id_has_no_colon_since_the_part_before_one_is_an_issuer(name: str) -> None:
    assert PERSON_ID.fullmatch("ann.b@example.org")
    assert not PERSON_ID.fullmatch(name)


KEY = {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]}


@pytest.mark.parametrize(("form", "body"), [
    (KeyBody, {**KEY, "roles": []}), (KeyBody, {**KEY, "roles": ["viewer"] * 9}), (KeyBody, {**KEY, "ttl_ms": 999}),
    (KeyBody, {**KEY, "ttl_ms": KEY_LIFE_MAX_MS + 1}), (KeyBody, {**KEY, "label": "x" * 129}),
    (KeyBody, {**KEY, "key": "mine"}), (KeyBody, {**KEY, "principal": {"type": "robot", "id": "x"}}),
    (TicketBody, {"path": ""}), (TicketBody, {"path": "/" * 513}),
    (BrowserSessionBody, {"code": "x" * 65}), (BrowserSessionBody, {"key": ""}),
    (PushSubscriptionBody, {"endpoint": "https://p", "keys": {"p256dh": "short", "auth": "x" * 22}}),
    (PushSubscriptionBody, {"endpoint": "", "keys": {"p256dh": "x" * 87, "auth": "x" * 22}}),
])
def test_a_body_beyond_its_bounds_is_refused(form: Any, body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, form)


def test_a_key_expires_after_ten_years_at_most_or_never_by_default() -> None:
    assert msgspec.convert({**KEY, "ttl_ms": KEY_LIFE_MAX_MS}, KeyBody).ttl_ms == KEY_LIFE_MAX_MS
    assert msgspec.convert(KEY, KeyBody).ttl_ms is None
