"""The config of a state directory, for every verb: the first mistake is the sentence, the others are counted (G-1)."""

from pathlib import Path

import pytest

from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import Where
from interlock.cli.verb_error import Trouble
from interlock.config import Config

pytestmark = pytest.mark.req("G-1")


def test_a_missing_file_means_defaults_and_a_valid_one_is_read(tmp_path: Path) -> None:
    assert load_config(Where(state=tmp_path)) == Config()
    (tmp_path / "interlock.toml").write_text("[gateway]\nport = 8000\n")
    assert load_config(Where(state=tmp_path)).gateway.port == 8000


@pytest.mark.parametrize(("text", "more"), [
    ("[gateway]\nprot = 1\n", ""), ("[gateway]\nprot = 1\nhots = 2\nx = 3\n", " (2 more)")])
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, text: str, more: str) -> None:
    (tmp_path / "interlock.toml").write_text(text)
    with pytest.raises(Trouble) as caught:
        load_config(Where(state=tmp_path))
    assert ":2: [gateway] has no key" in caught.value.sentence
    assert caught.value.sentence.endswith(f"{more}.")
    assert caught.value.remedy == "See all with: interlock config check"
