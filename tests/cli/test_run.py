"""What `interlock run` checks before it sends anything."""

from __future__ import annotations

import pytest

from interlock.cli.run import canonical
from interlock.cli.verb_error import Trouble


@pytest.mark.req("R-2")
def test_a_refused_session_key_is_quoted_in_short() -> None:
    with pytest.raises(Trouble) as refused:
        canonical("k" * 5_000, "goose")
    assert refused.value.sentence.startswith("--session 'kkkk")
    assert len(refused.value.sentence) < 200
