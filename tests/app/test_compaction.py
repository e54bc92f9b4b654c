"""The config's settings of contexts, as the engine reads them (Z-1, Z-2, Z-5, Z-6)."""

from __future__ import annotations

import base64
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine.conversation import counting_entropy
from interlock.app.compaction import compaction_hook, compaction_rules
from interlock.backends.memory.clock import ManualClock
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.channels.compaction_hook import HttpCompactionHook
from interlock.config import Config, ConfigError, parse, show
from interlock.session.context.compaction_plan import CompactionSettings
from interlock.session.context.tool_result_limits import PruningSettings

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
FILE = """
[compaction]
enabled = false
reserveTokens = 30000
keepRecentTokens = 7000
windows = {"acme/large" = 64000}

[compaction.beforeCompact]
url = "https://hooks.example/very/private"
secretEnv = "COMPACT_SECRET"
required = true

[session]
timeZone = "Asia/Seoul"

[agents.defaults.compaction]
reserveTokensFloor = 0

[agents.defaults.compaction.memoryFlush]
enabled = false
softThresholdTokens = 100
prompt = "Write."

[agents.defaults.contextPruning]
softTrimRatio = 0.2
keepLastAssistants = 5

[agents.helper]
adapter = "exec"
command = "cat"
"""


@pytest.mark.req("Z-2", "Z-5")
def test_an_empty_file_means_the_defaults() -> None:
    rules = compaction_rules(Config())
    assert rules.settings == CompactionSettings()
    assert dict(rules.windows) == {}
    assert rules.pruning == PruningSettings()


@pytest.mark.req("Z-1", "Z-2", "Z-5")
def test_every_key_is_read_by_its_own_name() -> None:
    config = parse(FILE, "f")
    assert list(config.agents) == ["helper"]
    rules = compaction_rules(config)
    settings, flush = rules.settings, rules.settings.memory_flush
    assert (settings.enabled, settings.reserve_tokens, settings.keep_recent_tokens, settings.reserve_tokens_floor) == (
        False, 30_000, 7_000, 0)
    assert (flush.enabled, flush.soft_threshold_tokens, flush.prompt, flush.system_prompt) == (
        False, 100, "Write.", None)
    assert rules.pruning == PruningSettings(soft_trim_ratio=0.2, keep_last_assistants=5)
    assert (dict(rules.windows), rules.zone) == ({"acme/large": 64_000}, ZoneInfo("Asia/Seoul"))


@pytest.mark.req("G-1")
def test_the_shown_config_reads_back_and_omits_the_hooks_path() -> None:
    shown = show(parse(FILE, "f"))
    assert "private" not in shown
    again = parse(shown.replace("https://hooks.example/(redacted)", "https://hooks.example/very/private"), "f")
    assert again == parse(FILE, "f")


@pytest.mark.req("G-1")
@pytest.mark.parametrize(("text", "sentence"), [
    ("[compaction]\nreserveToken = 1", 'did you mean "reserveTokens"?'),
    ("[compaction]\nreserveTokens = -1", '"reserveTokens" in [compaction]'),
    ('[compaction]\nwindows = {"m" = 12}', "12 is not a window of 'm'"),
    ("[agents.defaults.compaction]\nreserveTokensFlor = 0", 'did you mean "reserveTokensFloor"?'),
    ("[agents.defaults]\ncompact = 1", '[agents.defaults] has no key "compact"'),
    ("[agents.defaults.contextPruning]\nsoftTrimRatio = 30", '"softTrimRatio" in'),
    ("[agents.defaults.compaction.memoryFlush]\nprompt = ''", '"prompt" in'),
    ("agents.defaults = 3", "is a table"),
    ('[compaction.beforeCompact]\nurl = "https://h.example"', "secretFile"),
])
def test_a_mistake_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, "f")
    assert len(refused.value.sentences) == 1
    assert sentence in refused.value.sentences[0]


@pytest.mark.req("Z-6")
def test_the_hook_opens_with_its_secret_or_is_refused_with_one_sentence(tmp_path: Path) -> None:
    outgoing, clock, entropy = HttpOutgoing([]), ManualClock(), counting_entropy()

    def opened(text: str, environ: dict[str, str]) -> HttpCompactionHook | None:
        return compaction_hook(parse(text, "f"), tmp_path, outgoing, clock, entropy, environ)

    assert opened("", {}) is None
    assert opened(FILE, {"COMPACT_SECRET": SECRET}) is not None
    for text, environ, sentence in (
        (FILE, {}, "no variable COMPACT_SECRET"), (FILE, {"COMPACT_SECRET": "short"}, "is not `whsec_`"),
        (FILE.replace("secretEnv = \"COMPACT_SECRET\"", 'secretFile = "gone"'), {}, "cannot be read"),
        (FILE.replace("https://", "http://"), {"COMPACT_SECRET": SECRET}, "https"),
    ):
        with pytest.raises(ConfigError) as refused:
            opened(text, environ)
        assert sentence in refused.value.sentences[0]
        assert refused.value.sentences[0].startswith("[compaction.beforeCompact]: ")
