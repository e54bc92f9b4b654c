"""Which walls an opening gets, from its config and from what the host can do (H-15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.box.host import Host
from interlock.box.reach import PROXY_PORT
from interlock.box.spec import BoxSpec
from interlock.box.walls import NO_WALLS
from interlock.ports.agent import AgentSpec
from interlock.protocol.box import SPEAKERS, Box
from interlock.runner.session import session_box as boxing_module
from interlock.runner.session.session_box import Boxing, BoxRefused

ABLE = Host(("namespace", "landlock"))
LANDLOCK = Host(("landlock",), {"namespace": "Operation not permitted"})
BARE = Host((), {"namespace": "Operation not permitted", "landlock": "Function not implemented"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("state", "work", "keys"):
        (tmp_path / name).mkdir()
    return tmp_path


def boxed(**settings: object) -> AgentSpec:
    return AgentSpec(adapter="exec", command="sh", box=BoxSpec(**settings))  # type: ignore[arg-type]


PLAIN = AgentSpec(adapter="exec", command="sh")


@pytest.mark.req("H-15")
def test_the_state_directory_is_hidden_from_an_agent_without_a_box(place: Path) -> None:
    boxing = Boxing(ABLE, (str(place / "state"),))
    walls = boxing.walls("x", PLAIN, str(place / "work"), "rw", {})

    assert walls.kind == "namespace"
    assert str(place / "state") in walls.hidden
    assert (walls.read_only, walls.writable) == ((), None)


@pytest.mark.req("H-15")
def test_paths_of_a_box_are_hidden_under_their_real_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "link").symlink_to("keys")
    monkeypatch.setenv("HOME", str(place))
    walls = Boxing(ABLE, (str(place / "state"),)).walls(
        "x", boxed(hide=["~/link", "/no/such"]), str(place / "work"), "rw", {})

    assert {str(place / "state"), str(place / "keys")} <= set(walls.hidden)
    assert "/no/such" not in walls.hidden


@pytest.mark.req("H-15")
def test_writable_paths_always_include_the_workspace_and_temporary_files(place: Path) -> None:
    walls = Boxing(ABLE).walls("x", boxed(write=[str(place / "keys")]), str(place / "work"), "rw",
                               {"TMPDIR": str(place / "temporary")})
    assert walls.writable is not None
    assert {"/tmp", "/var/tmp"} <= set(walls.writable)


@pytest.mark.req("H-15")
def test_the_workspace_access_is_a_wall(place: Path) -> None:
    boxing = Boxing(ABLE, (str(place / "state"),))
    assert boxing.walls("x", PLAIN, str(place / "work"), "ro", {}).read_only == (str(place / "work"),)
    assert str(place / "work") in boxing.walls("x", PLAIN, str(place / "work"), "none", {}).hidden
    assert [boxing.holds(PLAIN, access) for access in ("ro", "none")] == [True, True]
    assert [Boxing(LANDLOCK).holds(PLAIN, access) for access in ("ro", "none")] == [True, False]
    assert [Boxing(BARE).holds(PLAIN, access) for access in ("ro", "none")] == [False, False]
    assert not boxing.holds(boxed(walls="none"), "ro")


@pytest.mark.req("H-15")
@pytest.mark.parametrize("where", ["state", "state/runner"])
def test_a_hidden_workspace_is_refused(place: Path, where: str) -> None:
    with pytest.raises(BoxRefused, match=r"lies in .*state, which is hidden from agents"):
        Boxing(ABLE, (str(place / "state"),)).walls("x", PLAIN, str(place / where), "rw", {})


@pytest.mark.req("H-15")
def test_a_box_that_the_host_cannot_build_refuses_the_start_with_a_reason(place: Path) -> None:
    with pytest.raises(BoxRefused, match=r"no mount namespace \(Operation not permitted\), no Landlock \(Function not"):
        Boxing(BARE).walls("x", boxed(), str(place / "work"), "rw", {})
    with pytest.raises(BoxRefused, match="does not support namespace walls"):
        Boxing(LANDLOCK).walls("x", boxed(walls="namespace"), str(place / "work"), "rw", {})


@pytest.mark.req("H-15")
def test_without_a_box_or_if_optional_the_agent_starts_without_walls_and_reports_it(place: Path) -> None:
    from interlock.agents.registry import offers

    boxing = Boxing(BARE, (str(place / "state"),))
    for spec in (PLAIN, boxed(on_unavailable="start")):
        assert boxing.walls("x", spec, str(place / "work"), "rw", {}) == NO_WALLS
        offer = boxing.offered(offers({"x": spec})[0], spec)
        assert offer.box == Box(walls="none")
        assert "this host can raise no walls" in (offer.unwalled or "")


@pytest.mark.req("H-15")
def test_a_user_may_choose_no_walls(place: Path) -> None:
    boxing = Boxing(ABLE, (str(place / "state"),))
    spec = boxed(walls="none")

    assert boxing.walls("x", spec, str(place / "state"), "rw", {}) == NO_WALLS
    from interlock.agents.registry import offers
    offer = boxing.offered(offers({"x": spec})[0], spec)
    assert (offer.box, offer.unwalled) == (Box(walls="none"), "its config sets walls = \"none\"")


@pytest.mark.req("H-18")
def test_the_box_report_lists_its_effective_walls_or_nothing() -> None:
    spec = boxed(write=["/w"])
    assert Boxing(ABLE).box(spec, "ro") == Box(
        walls="namespace", access="ro", limited=True, no_sockets=list(SPEAKERS))
    assert Boxing(LANDLOCK).box(PLAIN, "none") == Box(walls="landlock"), "Landlock shows its names"
    assert Boxing(BARE).box(boxed(write=["/w"], on_unavailable="start"), "ro") == Box(walls="none")


@pytest.mark.req("H-16")
def test_programs_are_held_if_the_host_can_and_otherwise_the_box_reports_it(place: Path) -> None:
    able, unable = Host(("namespace",), programs=None), Host(("namespace",), programs="no seccomp")
    work = str(place / "work")

    assert Boxing(able).walls("x", boxed(hold="programs"), work, "rw", {}).programs
    assert not Boxing(able).walls("x", PLAIN, work, "rw", {}).programs
    assert not Boxing(unable).walls("x", boxed(hold="programs", on_unavailable="start"), work, "rw", {}).programs
    with pytest.raises(BoxRefused, match=r"only if its programs are held .*this host cannot hold them \(no seccomp\)"):
        Boxing(unable).walls("x", boxed(hold="programs"), work, "rw", {})


@pytest.mark.req("H-16", "H-18")
def test_a_box_states_held_programs_only_if_this_host_holds_them() -> None:
    able, unable = Boxing(Host(("namespace",), programs=None)), Boxing(Host(("namespace",), programs="no seccomp"))

    assert able.box(boxed(hold="programs"), "rw") == Box(
        walls="namespace", programs=True, no_sockets=list(SPEAKERS))
    assert able.box(PLAIN, "rw") == Box(walls="namespace")
    assert not unable.box(boxed(hold="programs"), "rw").programs


NETWORK = Host(("namespace",), network=None)


@pytest.mark.req("H-19")
def test_an_isolated_network_reaches_the_model_the_listed_hosts_or_nothing(place: Path) -> None:
    boxing, work = Boxing(NETWORK), str(place / "work")
    key = {"OPENAI_API_KEY": "k"}
    for spec, ports in ((boxed(network="none"), ()), (boxed(network="model"), (PROXY_PORT,)),
                        (boxed(network=["443"]), (PROXY_PORT,)), (boxed(), None), (PLAIN, None)):
        assert boxing.walls("x", spec, work, "rw", key).network == ports
    reach = boxing.reach("x", boxed(network="model"), key)
    assert str(reach) == "api.openai.com:443"
    with pytest.raises(BoxRefused, match="the address of its model is unknown"):
        boxing.reach("x", boxed(network="model"), {})


@pytest.mark.req("H-19", "H-18")
def test_without_a_network_namespace_the_start_is_refused_or_the_box_reports_it(place: Path) -> None:
    work = str(place / "work")
    for host in (Host(("namespace",), network="Operation not permitted"), LANDLOCK):
        with pytest.raises(BoxRefused, match="starts only in a network of its own"):
            Boxing(host).walls("x", boxed(network="none"), work, "rw", {})
        spec = boxed(network="none", on_unavailable="start")
        assert Boxing(host).walls("x", spec, work, "rw", {}).network is None
        assert Boxing(host).box(spec, "rw").network == "all"
    assert Boxing(NETWORK).box(boxed(network=["a.example"]), "rw").network == ["a.example"]


@pytest.mark.req("H-15")
def test_sockets_of_key_agents_are_hidden_from_a_boxed_agent_unless_left_open(
        place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, bus = place / "agent.1", place / "bus"
    keys.touch()
    bus.touch()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(keys))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={bus},guid=0f")

    def seen(host: Host, spec: AgentSpec) -> set[str]:
        walls = Boxing(host).walls("x", spec, str(place / "work"), "rw", {})
        return {Path(path).name for path in walls.hidden} & {"agent.1", "bus"}

    assert seen(ABLE, boxed()) == {"agent.1", "bus"}
    assert seen(ABLE, boxed(sockets=["ssh-agent"])) == {"bus"}
    assert seen(ABLE, PLAIN) == set()
    assert seen(LANDLOCK, boxed()) == set()
    assert Boxing(ABLE).box(boxed(sockets=["ssh-agent"]), "rw").no_sockets == ["gpg-agent", "docker", "dbus", "tmux"]
    assert Boxing(LANDLOCK).box(boxed(), "rw").no_sockets == []
    assert Boxing(ABLE).box(PLAIN, "rw").no_sockets == []


@pytest.mark.req("H-19")
def test_sockets_that_could_act_for_the_user_are_hidden(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speaker = place / "docker.sock"
    speaker.touch()
    monkeypatch.setattr(boxing_module, "SPEAKERS", (str(speaker),))
    for spec, hidden in ((boxed(network="none"), True), (boxed(), False)):
        walls = Boxing(NETWORK).walls("x", spec, str(place / "work"), "rw", {})
        assert (str(speaker) in walls.hidden) is hidden
