"""The error of a config that cannot be used."""

from __future__ import annotations


class ConfigError(Exception):
    """Raised if the file cannot be used; `sentences` has one for each mistake, with file, line and remedy."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences
