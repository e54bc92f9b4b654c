"""The redacted and the unchanged parts of text that is sent out."""

from __future__ import annotations

import time

import pytest

from interlock.command.redaction import SECRETS, Redaction, RedactionRule
from interlock.config import ConfigError, parse


@pytest.mark.req("K-4")
@pytest.mark.parametrize(("text", "shown"), [
    ("key ilk_AbCdEfGh_12-34 here", "key ilk_... here"),
    ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ..."),
    ("ilr_0123456789", "ilr_..."), ("a ilt_0123456789.", "a ilt_...."), ("eyJhbGciOiJub25l.eyJzdWIi.sig_1", "(token)"),
    ("x -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- y", "x (private key) y"),
    ("nothing secret: é", "nothing secret: é"), ("half \ud800 a pair", "half ? a pair"),
])
def test_secrets_are_redacted_without_any_rule(text: str, shown: str) -> None:
    assert SECRETS.text(text) == shown


@pytest.mark.req("K-4")
def test_rules_run_over_texts_in_order_and_never_over_ids() -> None:
    redaction = Redaction([RedactionRule(name="card", regex=r"\b(\d{4})-\d{4}\b", replacement=r"\1-…"),
                           RedactionRule(name="word", regex="secret")])
    body = {"command_id": "secret", "id": "secret", "text": "a secret 1234-5678", "n": 7,
            "list": ["secret", None, True], "payload_sha256": "secret", "created_at": "secret", "secret": 1}
    assert redaction.value(body) == {
        "command_id": "secret", "id": "secret", "text": "a (redacted: word) 1234-…", "n": 7,
        "list": ["(redacted: word)", None, True], "payload_sha256": "secret", "created_at": "secret",
        "(redacted: word)": 1}


@pytest.mark.req("K-4")
def test_no_pattern_is_slow_whatever_the_text() -> None:
    redaction = Redaction([RedactionRule(name="slow", regex=r"(a+)+$|(a|aa)+b")])
    began = time.perf_counter()
    redaction.text("a" * 100_000 + "!")
    assert time.perf_counter() - began < 2


@pytest.mark.req("K-4", "G-1")
@pytest.mark.parametrize(("rule", "sentence"), [
    ('name = "a"\nregex = "("', "not of RE2's syntax"), ('name = "a"\nregex = "(?=x)y"', "not of RE2's syntax"),
    ('name = "a b"\nregex = "x"', "use a-z"), ('name = "a"\nregex = "x*"', "matches the empty text"),
    ('name = "a"\nregex = "x"\nreplacement = "\\\\2"', "names a group"), ('name = "a"\nregex = ""', "from 1 to"),
])
def test_an_invalid_rule_is_named_with_its_line(rule: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"[[redaction.rules]]\n{rule}\n", "x.toml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("x.toml:")
