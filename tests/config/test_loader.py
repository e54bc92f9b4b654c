"""The config file: typed, and every mistake is one sentence with file, line and remedy."""

import os
from pathlib import Path

import pytest

from interlock import config
from interlock.config import Config, ConfigError, check, key_lines, load, parse, show, state_directory

GOOD = """
[gateway]
port = 8000
hosts = ["desk.example"]

[session]
dmScope = "per-peer"
identityLinks = {ann = ["telegram:1"]}
resetByType.thread = {mode = "idle", idleMinutes = 30}
sendPolicy = {rules = [{action = "deny", chatType = "group"}]}

[[bindings]]
agent = "shell"
channel = "telegram"

[limits]
timeout_ms = 1000

[[policy.rules]]
name = "no rm"
effect = "deny"
command = 'rm .*'

[[policy.rules]]
name = "two eyes"
effect = "ask"
required = 2
self = false
ttl = "15m"
groups = [{role = "approver", min = 2}]

[agents.shell]
adapter = "acp"
command = "interlock-shell-agent"
env = {API_KEY = "very-private", MODE = "x"}
"""


@pytest.mark.req("G-1")
def test_a_missing_file_means_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "interlock.toml") == Config()


@pytest.mark.req("G-1")
def test_a_valid_file_is_typed() -> None:
    read = parse(GOOD, "f")
    assert read.gateway.port == 8000
    assert [rule.name for rule in read.policy.rules] == ["no rm", "two eyes"]
    assert read.policy.rules[1].self_approval is False
    assert read.policy.rules[1].groups[0].role == "approver"
    assert read.agents["shell"].command == "interlock-shell-agent"


@pytest.mark.req("G-1")
def test_a_shown_config_reads_back_except_for_secrets() -> None:
    shown = show(parse(GOOD, "f"))
    assert "very-private" not in shown
    again = parse(shown, "f")
    assert again.policy == parse(GOOD, "f").policy
    assert again.agents["shell"].env == {"API_KEY": "(redacted)", "MODE": "x"}
    assert parse(show(Config()), "f") == Config()


def test_a_bot_is_shown_and_its_mistakes_are_named() -> None:
    text = '[telegram]\ntoken_file = "t"\n[telegram.people.7]\nowner = true\n'
    assert parse(show(parse(text, "f")), "f") == parse(text, "f")
    for wrong, sentence in (("[telegram]\n", "token_file: name the file"),
                            (text.replace("people.7", "people.anna"), "'anna' is not a Telegram id"),
                            (text.replace("owner = true", 'owner = true\nkey_env = "K"'), "key_file: name the file"),
                            (text.replace("[telegram]", '[telegram]\napi_url = "http://x.org"'), "an https URL")):
        with pytest.raises(ConfigError) as error:
            parse(wrong, "f")
        assert sentence in error.value.sentences[0]


@pytest.mark.req("G-1")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[gateway]\nprot = 1\n", 'f:2: [gateway] has no key "prot"; did you mean "port"?'),
        ("\n[gatway]\nport = 1\n", 'f:2: the file has no key "gatway"; did you mean "gateway"?'),
        ('[gateway]\nport = "x"\n', 'f:2: "port" in [gateway]: expected a whole number, got a text.'),
        ("gateway = 5\n", "f:1: [gateway] is a table, write it as [gateway]."),
        ('[agents.shell]\nadapter = "acp"\ncomand = "x"\n',
         'f:3: [agents.shell] has no key "comand"; did you mean "command"?'),
        ('[agents.a]\ncommand = "x"\n', 'f:1: [agents.a] needs the key "adapter".'),
        ('[agents.Big]\nadapter = "acp"\n', 'f:1: "Big" is not an agent id'),
        ('[[policy.rules]]\nname = "a"\neffect = "ask"\n[[policy.rules]]\nname = "b"\neffect = "maybe"\n',
         'f:6: "effect" in [policy.rules]: invalid enum value'),
        ('[[policy.rules]]\nname = "a"\neffect = "ask"\nttl = "soon"\n', 'f:4: "ttl" in [policy.rules]: write a dur'),
        ("[limits]\ntimeout_ms = 0\n", 'f:2: "timeout_ms" in [limits]: a time in milliseconds'),
        ("[limits]\napproval_ttl_ms = 99999999999\n", 'f:2: "approval_ttl_ms" in [limits]: at most 30 days'),
        ("agents = 5\n", 'f:1: "agents" in the file: write each one as a table [agents.NAME].'),
        ("[[webhooks]]\n", 'f:1: "webhooks" in the file: write each one as a table [webhooks.NAME].'),
        ("[budgets]\n", 'f:1: "budgets" in the file: write each one as a table [[budgets]].'),
        ("[policy]\nrules = 1\n", 'f:2: "rules" in [policy]: write each one as a table [[policy.rules]].'),
        ("[gateway]\nhosts = true\n", 'f:2: "hosts" in [gateway]: expected a list, got true or false.'),
        ("[gateway\n", "f:1: not TOML: "),
        ("[gateway]\nzzzz = 1\n", "known: host, port, hosts, origins, tls_cert, tls_key, behind_proxy, "
                                  "trusted_proxies, buffer_policy."),
    ],
)
def test_a_mistake_names_file_line_and_remedy(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert len(caught.value.sentences) == 1
    assert sentence in caught.value.sentences[0]


@pytest.mark.req("G-1")
def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    path.write_text("[gateway]\nprot = 1\nhost = 2\n[runner]\nroot = []\n")
    assert [line.split(": ")[0] for line in check(path)] == [f"{path}:2", f"{path}:3", f"{path}:5"]
    path.write_text(GOOD)
    assert check(path) == []
    path.write_bytes(b"\xff")
    assert "cannot be read" in check(path)[0]


def test_lines_are_found_after_multi_line_strings() -> None:
    lines = key_lines('a = """\n[no]\nb = 1\n"""\n[[t.u]]\nc = 1\n[t.u.v]\n"d e".f = 2\n')
    assert lines == {("a",): 1, ("t", "u", 0): 5, ("t", "u", 0, "c"): 6, ("t", "u", 0, "v"): 7,
                     ("t", "u", 0, "v", "d e", "f"): 8}


@pytest.mark.req("G-2")
def test_the_state_directory_is_the_flag_then_the_variable_then_the_platforms_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config.directory.platformdirs, "user_state_path", lambda *_a, **_k: tmp_path / "own")
    assert state_directory(tmp_path / "a", {"INTERLOCK_STATE": str(tmp_path / "b")}) == tmp_path / "a"
    assert state_directory(None, {"INTERLOCK_STATE": str(tmp_path / "b")}) == tmp_path / "b"
    assert state_directory(None, {}) == tmp_path / "own"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    assert state_directory(tmp_path / "open").stat().st_mode & 0o777 == 0o700
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with pytest.raises(ConfigError, match="everybody"):
        state_directory(tmp_path / "shared")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        state_directory(tmp_path / "file")


@pytest.mark.req("G-1")
@pytest.mark.parametrize(("text", "place"), [
    ("[gateway]\nport = 70000\n", ":2"), ("[runner]\noutbox_bytes = 1\n", ":2"),
    ("[runner]\nagent_idle_ms = -1\n", ":2"), ("[limits]\ntimeout_ms = 9223372036854775807\n", ":2"),
    ('[runner]\nroots = ["~/work"]\n', ":2"), ('[agents.a]\nadapter = "acp"\nroots = ["work"]\n', ":3"),
])
def test_an_impossible_figure_or_root_is_named_with_its_line(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "interlock.toml")
    (sentence,) = caught.value.sentences
    assert sentence.startswith(f"interlock.toml{place}: ")


@pytest.mark.req("G-1")
def test_a_path_that_is_not_a_file_is_reported_without_a_wait(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    os.mkfifo(path)
    assert "not a file" in check(path)[0]
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert "leads nowhere" in check(path)[0]
    path.unlink()
    path.write_bytes(b"\xef\xbb\xbf[gateway]\nport = 1\n")
    assert load(path).gateway.port == 1, "some editors begin a file so"


@pytest.mark.req("G-2")
def test_a_directory_with_other_content_keeps_its_mode(tmp_path: Path) -> None:
    """Else `--state /` would close the whole machine to everybody."""
    other = tmp_path / "project"
    other.mkdir(mode=0o755)
    (other / "README.md").touch()
    with pytest.raises(ConfigError, match="chmod 700"):
        state_directory(other)
    assert other.stat().st_mode & 0o777 == 0o755
    (other / "owner.key").touch()
    assert state_directory(other).stat().st_mode & 0o777 == 0o700
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    (volume / "objects").mkdir()
    assert state_directory(volume).stat().st_mode & 0o777 == 0o700


def test_an_unknown_array_of_tables_is_named_by_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        parse('[gateway]\nport = 1\n\n[[policy.rule]]\neffect = "ask"\n', "interlock.toml")
    assert caught.value.sentences == ['interlock.toml:4: [policy] has no key "rule"; did you mean "rules"?']


@pytest.mark.req("G-1", "K-4")
def test_shared_services_are_named_by_urls_and_shown_without_passwords() -> None:
    text = ('[cluster]\nstore = "postgresql://ann:s3cret@db.example/interlock"\n'
            'bus = "nats://bus:pass1@n1:4222,nats://n2:4222"\n')
    shown = show(parse(text, "interlock.toml"))
    assert 'store = "postgresql://ann:(redacted)@db.example/interlock"' in shown
    assert 'bus = "nats://bus:(redacted)@n1:4222,nats://n2:4222"' in shown
    for wrong, sentence in (('store = "mysql://db"', "begins with postgresql://"),
                            ('bus = "nats://n1"', "name it with store"),
                            ('store = "postgresql://db"\nbus = "http://n1"', "begins with nats:// or tls://")):
        with pytest.raises(ConfigError) as caught:
            parse(f"[cluster]\n{wrong}\n", "interlock.toml")
        assert sentence in caught.value.sentences[0]
