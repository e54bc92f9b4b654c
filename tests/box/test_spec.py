"""`[agents.<id>.box]`: its settings, and each contradiction as one sentence that names the field (H-15)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.box.spec import BoxSpec

pytestmark = pytest.mark.req("H-15")


@pytest.mark.parametrize(("given", "sentence"), [
    ({"hold": "everything"}, "Invalid enum value 'everything'"),
    ({"hold": "programs", "walls": "none"}, "hold: without walls an agent can reach the process that holds"),
    ({"changes": "staged", "walls": "landlock"}, "staged changes need a namespace"),
    ({"between_turns": ["git"]}, "no program is held"),
    ({"between_turns": ["bin/git"], "hold": "programs"}, "does not begin with a program's name"),
    ({"between_turns": ["git 'status"], "hold": "programs"}, "has a quote that does not end"),
    ({"network": ["127.0.0.1"]}, "is this machine itself, which a box keeps from its agent"),
    ({"network": "some"}, "Invalid enum value .some."),
    ({"network": "none", "walls": "landlock"}, "only a namespace limits the network"),
    ({"hide": ["keys"]}, "hide: 'keys' is not an absolute path"),
    ({"write": ["~other/x"]}, "write: '~other/x' is not an absolute path"),
    ({"walls": "none", "hide": ["~/.ssh"]}, "without walls nothing can be hidden"),
    ({"walls": "bubblewrap"}, "Invalid enum value 'bubblewrap'"),
    ({"walls": "none", "write": []}, "without walls nothing can be hidden"),
    ({"walls": "none", "changes": "staged"}, "makes none"),
    ({"walls": "none", "network": "model"}, "only a namespace limits the network"),
    ({"between_turns": [""], "hold": "programs"}, "does not begin with a program's name"),
    ({"between_turns": ["'' status"], "hold": "programs"}, "does not begin with a program's name"),
    ({"between_turns": ["../git"], "hold": "programs"}, "does not begin with a program's name"),
    ({"hide": [""]}, "hide: '' is not an absolute path"),
    ({"sockets": ["ssh"]}, "Invalid enum value 'ssh'"),
    ({"Hide": []}, "unknown field"),
])
def test_an_impossible_box_is_refused_with_its_reason(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence.replace("(", r"\(")):
        msgspec.convert(given, BoxSpec)


@pytest.mark.parametrize("given", [
    {}, {"walls": "namespace", "hide": ["~/.ssh", "/etc/keys"], "write": []},
    {"walls": "none"}, {"walls": "none", "network": "all", "changes": "direct"},
    {"hold": "programs", "walls": "landlock", "between_turns": ["git status", "/usr/bin/env x", "~/bin/y 'a b'"]},
    {"changes": "staged", "walls": "namespace", "network": ["api.example.com", "example.com:8443", "443"]},
    {"network": []}, {"network": "model", "sockets": ["ssh-agent", "tmux"]},
])
def test_a_possible_box_reads_back_unchanged(given: dict[str, object]) -> None:
    spec = msgspec.convert(given, BoxSpec)
    assert {name: getattr(spec, name) for name in given} == given
    assert msgspec.convert(msgspec.to_builtins(spec), BoxSpec) == spec


@pytest.mark.req("H-19")
@pytest.mark.parametrize("entry", ["", "*", "a b", "http://a.example", "a.example:0", "a.example:70000", "0", "70000",
                                   "localhost", "::1", "10.0.0.1/8", "-a.example", "a..example"])
def test_a_network_entry_that_is_neither_host_nor_port_is_refused(entry: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"network": [entry]}, BoxSpec)
