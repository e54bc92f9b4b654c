"""The part of the runner's environment that an agent receives (A-1)."""

import pytest

from interlock.runner.process.environment import environment

RUNNERS_OWN = {
    "PATH": "/bin",
    "LC_TIME": "C",
    "XDG_CONFIG_HOME": "/home/a/.config",
    "https_proxy": "http://127.0.0.1:3128",
    "INTERLOCK_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "SSH_AUTH_SOCK": "/run/agent",
    "PYTHONPATH": "/srv",
    "LD_PRELOAD": "/evil.so",
    "RAWP_SESSION_ID": "of another session",
}


@pytest.mark.req("A-1")
def test_only_the_allow_list_and_our_variables_pass() -> None:
    assert environment(RUNNERS_OWN, session_id="s", workspace="/w", runner_id="r") == {
        "PATH": "/bin",
        "LC_TIME": "C",
        "XDG_CONFIG_HOME": "/home/a/.config",
        "https_proxy": "http://127.0.0.1:3128",
        "RAWP_SESSION_ID": "s",
        "RAWP_WORKSPACE_PATH": "/w",
        "RAWP_DPS_VERSION": "rawp-dps-1.0",
        "RAWP_RUNNER_ID": "r",
    }


@pytest.mark.req("A-1")
def test_configured_variables_pass_and_override_all_but_ours() -> None:
    configured = {"PATH": "/opt/bin", "API_KEY": "k", "RAWP_SESSION_ID": "forged", "INTERLOCK_TOKEN": "secret"}
    env = environment(RUNNERS_OWN, session_id="s", workspace="/w", runner_id="r", extra=configured)
    assert (env["PATH"], env["API_KEY"], env["RAWP_SESSION_ID"]) == ("/opt/bin", "k", "s")
    assert not [name for name in env if name.startswith("INTERLOCK_")]


@pytest.mark.req("A-1")
def test_the_workspace_is_passed_as_an_absolute_path() -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        environment({}, session_id="s", workspace="here", runner_id="r")


@pytest.mark.req("A-1")
def test_a_named_credential_passes_with_the_runners_value_and_never_one_of_ours() -> None:
    named = ["AWS_SECRET_ACCESS_KEY", "INTERLOCK_TOKEN", "NOT_SET_KEY"]
    env = environment(RUNNERS_OWN, session_id="s", workspace="/w", runner_id="r", credentials=named)
    plain = environment(RUNNERS_OWN, session_id="s", workspace="/w", runner_id="r")
    assert env == plain | {"AWS_SECRET_ACCESS_KEY": "secret"}
