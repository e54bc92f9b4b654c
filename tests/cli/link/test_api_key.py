"""The key that a verb sends (K-1): of the environment, else the owner's of the state directory."""

from pathlib import Path

import pytest

from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.api_key import checked_key, key_of
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("K-1")


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_KEY", raising=False)


def test_the_environment_takes_precedence_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner.key").write_text("ilk_file\n")
    assert key_of(tmp_path) == "ilk_file"
    monkeypatch.setenv("INTERLOCK_KEY", " ilk_env ")
    assert key_of(tmp_path) == "ilk_env"


def test_a_missing_key_is_reported_with_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match=r"owner\.key does not exist") as caught:
        key_of(tmp_path)
    assert caught.value.status == ExitStatus.NOT_AUTHORISED
    assert "--state" in caught.value.remedy


def test_a_file_without_a_key_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "owner.key").write_bytes(b"\xff\xfe")
    with pytest.raises(Trouble, match="holds no key"):
        key_of(tmp_path)
    (tmp_path / "owner.key").unlink()
    (tmp_path / "owner.key").mkdir()
    with pytest.raises(Trouble, match="cannot be read"):
        key_of(tmp_path)


@pytest.mark.parametrize("key", ["", "  ", "a b", "a\tb", "ilk_é", "a\nb", "a\x7fb"])
def test_text_that_no_header_can_carry_is_not_a_key(key: str) -> None:
    assert checked_key(" ilk_1\n") == "ilk_1"
    with pytest.raises(Trouble, match="characters that no key has"):
        checked_key(key)
