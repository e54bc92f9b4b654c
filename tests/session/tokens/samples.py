"""Texts of many languages and kinds, and how many tokens a public tokenizer counts in each."""

from __future__ import annotations

import json
from pathlib import Path

SAMPLES = Path(__file__).parent
COUNTS: dict[str, int] = json.loads((SAMPLES / "counts.json").read_text())["counts"]


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_bytes().decode()
