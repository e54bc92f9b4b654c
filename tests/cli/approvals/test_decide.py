"""`interlock approve`, `deny` and `cancel`: nothing is decided that was not named (Y-10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.cli.approvals.decide import approve, cancel, deny
from interlock.cli.verb_error import Trouble


@pytest.mark.req("Y-10")
@pytest.mark.parametrize(("verb", "noun"), [(approve, "approval"), (deny, "approval"), (cancel, "task")])
@pytest.mark.parametrize(("ids", "sentence"), [
    ((), "No {} is named."), (("",), "An empty {} id names nothing."), (("a", " "), "An empty {} id names nothing."),
])
def test_a_verb_without_an_id_is_refused(
    verb: Callable[..., int], noun: str, ids: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(Trouble) as refused:
        verb(*ids)
    assert refused.value.sentence == sentence.format(noun)
