"""The box as data: its properties, its text on a card, and whether one covers another (H-18)."""

from __future__ import annotations

import pytest

from interlock.protocol.box import SPEAKERS, Box, covers, is_closed, parts, phrase

pytestmark = pytest.mark.req("H-18")
CLOSED = Box(walls="namespace", limited=True, network="model")


@pytest.mark.parametrize(
    ("box", "sentence"),
    [
        (Box(walls="none", network="none", staged=True), "no walls: it can read Interlock's own keys"),
        (Box(walls="landlock"), "behind walls (landlock): open network; writes are not held"),
        (Box(walls="namespace", limited=True, network="model", staged=True),
         "in a box (namespace): no network but its model; writes are staged"),
        (CLOSED, "in a box (namespace): no network but its model; writes only in its workspace and listed paths"),
        (Box(walls="namespace", no_sockets=list(SPEAKERS)),
         "behind walls (namespace): open network; writes are not held; other programs' sockets hidden"),
        (Box(walls="namespace", no_sockets=["gpg-agent", "docker", "dbus", "tmux"]),
         "behind walls (namespace): open network; writes are not held; other programs' sockets hidden but for "
         "ssh-agent"),
        (Box(walls="namespace", network="none", access="ro"),
         "behind walls (namespace): no network; workspace read-only, writes elsewhere are not held"),
        (Box(walls="namespace", network=["a.example", "443"], programs=True),
         "behind walls (namespace): no network but a.example, 443; writes are not held; "
         "each program that it starts is held"),
        (Box(walls="namespace", network=[str(port) for port in range(6)]),
         "behind walls (namespace): no network but 0, 1, 2, 3, 2 more; writes are not held"),
    ],
)
def test_a_card_describes_it_in_one_line(box: Box, sentence: str) -> None:
    assert phrase(box) == sentence


def test_without_walls_no_property_holds() -> None:
    assert parts(None) == parts(Box(walls="none", limited=True, network="none", programs=True, staged=True)) == ()
    assert parts(Box(walls="landlock", network=["443"], programs=True)) == ("walls", "network", "programs")


def test_a_box_is_closed_only_with_walls_around_its_writes_and_its_network() -> None:
    assert is_closed(CLOSED)
    assert not is_closed(Box(walls="namespace", network="none"))
    assert not is_closed(Box(walls="namespace", limited=True))
    assert not is_closed(None)


@pytest.mark.parametrize(
    ("stated", "promised", "holds"),
    [
        (None, None, True),
        (None, Box(walls="none"), True),
        (None, Box(walls="landlock"), False),
        (Box(walls="landlock"), Box(walls="namespace"), True),
        (CLOSED, CLOSED, True),
        (Box(walls="namespace", network="model"), CLOSED, False),
        (Box(walls="namespace", limited=True, network="none"), CLOSED, True),
        (Box(walls="namespace", limited=True, network=["a.example"]), CLOSED, False),
        (CLOSED, Box(walls="namespace"), True),
        (CLOSED, Box(walls="namespace", access="ro"), False),
        (CLOSED, Box(walls="namespace", staged=True), False),
        (Box(walls="namespace"), Box(walls="namespace", no_sockets=["docker"]), False),
        (Box(walls="namespace", no_sockets=list(SPEAKERS)), Box(walls="namespace", no_sockets=["docker"]), True),
    ],
)
def test_an_opening_must_have_every_offered_property(stated: Box | None, promised: Box | None, holds: bool) -> None:
    assert covers(stated, promised) is holds
