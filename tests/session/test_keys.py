"""Session keys: one function makes every key canonical, so that one session never has two names (R-2)."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.session.keys import KEY_MAX_CHARS, BadKey, agent_of, canonical_agent, canonical_key, run_key

AGENTS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True)
KEYS = st.lists(st.sampled_from(["agent", "AGENT", "main", "Main", "cron", "HOOK", "a", "B", "run", ":", "::", "x1"]),
                min_size=1, max_size=8).map("".join) | st.text(min_size=1, max_size=30)


@pytest.mark.req("R-1", "R-2")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("main", "agent:shell:main"), ("MAIN", "agent:shell:main"), (" main ", "agent:shell:main"),
        ("agent:shell:main", "agent:shell:main"), ("agent:shell", "agent:shell:main"), ("agent", "agent:shell:main"),
        ("Agent:Shell:Main", "agent:shell:main"), ("agent::main", "agent:shell:main"), ("main:", "agent:shell:main"),
        ("MAIN:", "agent:shell:main"), ("agent:claude:", "agent:claude:main"),
        ("agent:Claude:work", "agent:claude:work"),
        ("work", "agent:shell:work"), ("work:", "agent:shell:work"), ("cron:nightly", "agent:shell:cron:nightly"),
        ("Hook:AB12", "agent:shell:hook:AB12"), ("agent:claude:run:S1", "agent:claude:run:S1"),
        ("agent:a:telegram:group:-100:topic:7", "agent:a:telegram:group:-100:topic:7"),
    ],
)
def test_every_spelling_of_a_key_is_one_key(text: str, key: str) -> None:
    assert canonical_key(text, "shell") == key


@pytest.mark.req("R-2")
@pytest.mark.parametrize("text", ["", "  ", "a b", "a\tb", "a\x00", "x" * KEY_MAX_CHARS, "a\u200bb", "a\u2028b",
                                  "agent:no/such:main",
                                  "agent:" + "a" * 65 + ":main"])
def test_an_invalid_key_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(BadKey, match=r"session key has|not an agent id"):
        canonical_key(text, "shell")


@pytest.mark.req("R-2")
@given(KEYS, AGENTS, AGENTS)
def test_a_canonical_key_is_its_own_canonical_form(text: str, default: str, other: str) -> None:
    try:
        key = canonical_key(text, default)
    except BadKey:
        assume(False)
        return
    assert canonical_key(key, other) == key
    assert canonical_agent(agent_of(key)) == agent_of(key)


@pytest.mark.req("R-2", "G-4")
@given(AGENTS, st.uuids(version=4))
def test_the_key_of_a_single_command_is_canonical(agent: str, session: object) -> None:
    key = run_key(agent, str(session))
    assert canonical_key(key, "other") == key
    assert agent_of(key) == agent
