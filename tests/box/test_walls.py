"""What a box hides, as data: which paths, under which names, and how the supervisor's order carries them (H-15)."""

from __future__ import annotations

import pytest

from interlock.box.ground import preferred
from interlock.box.host import Host
from interlock.box.spec import BoxSpec
from interlock.box.walls import NO_WALLS, Walls, inside, with_aliases, without_nested


@pytest.mark.req("H-15")
def test_the_order_distinguishes_unlimited_writing_from_none() -> None:
    assert NO_WALLS.fields() == []
    assert Walls("namespace", ("/s",), ("/r",)).fields() == ["namespace", "h/s", "r/r"]
    assert Walls("landlock", writable=()).fields() == ["landlock", "w"]
    assert Walls("landlock", writable=("/w",)).fields() == ["landlock", "w", "w/w"]


@pytest.mark.req("H-15")
def test_a_path_is_inside_by_its_components_and_not_by_its_prefix() -> None:
    assert inside("/home/u/state/key", ["/home/u/state"]) == "/home/u/state"
    assert inside("/home/u/state", ["/home/u/state"]) == "/home/u/state"
    assert inside("/home/u/stateless", ["/home/u/state"]) is None
    assert inside("/etc", ["/"]) == "/"
    assert without_nested(["/a/b", "/a", "/ab", "/a"]) == ("/a", "/ab")


MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /tmp rw - tmpfs tmpfs rw
40 22 254:0 /home/u/.local /srv/a\\040copy rw - ext4 /dev/vda rw
41 22 254:0 /home/u/state/runner /srv/part rw - ext4 /dev/vda rw
42 22 254:1 /home/u/state /other/disk rw - ext4 /dev/vdb rw
43 22 254:0 / /mnt/whole rw - ext4 /dev/vda rw
44 43 0:26 / /mnt/whole/home/u/state rw - tmpfs tmpfs rw
"""


@pytest.mark.req("H-15")
def test_a_hidden_directory_is_hidden_at_every_bind_mount() -> None:
    assert with_aliases(["/home/u/state"], MOUNTINFO) == ("/home/u/state", "/srv/part")
    assert with_aliases(["/home/u/.local/state/x"], MOUNTINFO) == (
        "/home/u/.local/state/x", "/srv/a copy/state/x", "/mnt/whole/home/u/.local/state/x")
    assert with_aliases(["/tmp/state"], MOUNTINFO) == ("/tmp/state",)
    assert with_aliases(["/home/u/state"], "") == ("/home/u/state",)


@pytest.mark.req("H-15")
def test_the_best_wall_is_the_first_that_the_host_supports() -> None:
    both, one, bare = Host(("namespace", "landlock")), Host(("landlock",), {"namespace": "not permitted"}), Host((), {})
    assert [host.choose(BoxSpec()) for host in (both, one, bare)] == ["namespace", "landlock", "none"]
    assert both.choose(BoxSpec(walls="landlock")) == "landlock"
    assert one.choose(BoxSpec(walls="namespace")) == "none"
    assert both.choose(BoxSpec(walls="none")) == "none"
    assert one.why_none is None
    assert "no mount namespace (not tried), no Landlock (not tried)" in (bare.why_none or "")


@pytest.mark.req("H-15")
def test_root_without_the_right_to_mount_prefers_landlock() -> None:
    assert preferred(0, administers=False) == ("landlock", "namespace")
    assert preferred(0, administers=True) == preferred(1000, administers=False) == ("namespace", "landlock")


@pytest.mark.req("H-15")
def test_a_feature_of_namespaces_selects_one_even_if_landlock_is_preferred() -> None:
    host = Host(("landlock", "namespace"), network=None, no_overlay="")

    assert host.choose(BoxSpec()) == "landlock"
    assert host.choose(BoxSpec(changes="staged")) == "namespace"
    assert host.choose(BoxSpec(network="none")) == "namespace"
    assert Host(("landlock", "namespace")).choose(BoxSpec(network="none")) == "landlock"
