"""How browsers are notified: only with `[push]`, by a key derived from the gateway's own (J-18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.app.push import push_settings
from interlock.config import Config
from interlock.config.notices import PushSection

pytestmark = pytest.mark.req("J-18")


def test_without_its_table_push_is_off_and_no_key_is_created(tmp_path: Path) -> None:
    outgoing: Any = object()

    assert push_settings(Config(), tmp_path, outgoing) is None
    assert list(tmp_path.iterdir()) == []


def test_the_key_is_the_same_after_a_restart_and_details_are_as_configured(tmp_path: Path) -> None:
    outgoing: Any = object()
    config = Config(push=PushSection(contact="mailto:ops@example.org", details=True))
    first, again = (push_settings(config, tmp_path, outgoing) for _ in range(2))

    assert first is not None
    assert again is not None
    assert first[0].public_key == again[0].public_key
    assert first[1] is True
