"""The words of a conversation: what is said, what must be heard, when the link is cut. Data only; `player` obeys it.

In payloads and expectations, a text "$name" stands for what an earlier step kept under that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})
HEAR_S = 15.0
"""What is not heard within this counts as not said."""


class Fit(NamedTuple):
    """An expectation that is more than equality; `said` tells it to a person."""

    test: Callable[[Any], bool]
    said: str


def at_least(number: int) -> Fit:
    """A number from `number`."""

    def test(found: Any) -> bool:
        return isinstance(found, int) and found >= number

    return Fit(test, f"at least {number}")


def holding(part: str) -> Fit:
    """A text or a list with `part` in it."""

    def test(found: Any) -> bool:
        return isinstance(found, str | list) and part in found

    return Fit(test, f"something with {part!r} in it")


def one_of(*values: Any) -> Fit:
    """Any of these."""

    def test(found: Any) -> bool:
        return found in values

    return Fit(test, " or ".join(map(repr, values)))


FILLED = Fit(bool, "something")


class SendFrame(NamedTuple):
    """Send a frame. A durable type gets the next number, plus `skip`; `seq` sets one by hand and uses none up.

    `keep` keeps the frame, for `Again`, and its message id as `<keep>_id`."""

    kind: str
    payload: Any
    metadata: Mapping[str, Any] = NOTHING
    skip: int = 0
    seq: int | None = None
    keep: str | None = None


class Again(NamedTuple):
    """Send a kept frame once more, as it was."""

    name: str


class ExpectFrame(NamedTuple):
    """Wait for a frame of this type, passing others over, and those of this type that `where` does not fit.

    `has` must then fit; `keep` keeps parts of it (name → dotted path). `next_`: it must be the very next frame: of the
    session, or of the link where there is no session yet.
    """

    kind: str
    has: Mapping[str, Any] = NOTHING
    where: Mapping[str, Any] = NOTHING
    keep: Mapping[str, str] = NOTHING
    next_: bool = False
    within_s: float = HEAR_S


class Silence(NamedTuple):
    """Nothing of these types (none named: nothing at all) may come for so long."""

    kinds: tuple[str, ...] = ()
    for_s: float = 0.5


class Never(NamedTuple):
    """No frame of this type has come since the session began."""

    kind: str


class RefusedLink(NamedTuple):
    """A link without hello or welcome. `refused`: it must be refused with one of these HTTP statuses."""

    token: str | None = None
    subprotocol: str | None = None
    refused: tuple[int, ...] = ()


class Join(NamedTuple):
    """A link with hello and welcome. `durable`: how much of the session the gateway must say, or is to say, it has;
    `control_seq`: what a runner says it has."""

    durable: Any = None
    control_seq: Any = None


class CutLink(NamedTuple):
    """Break the link without a word."""


class ExpectClose(NamedTuple):
    """The other side must close the link, with one of these codes (none named: any)."""

    codes: tuple[int, ...] = ()
    within_s: float = HEAR_S


class PersonAction(NamedTuple):
    """Have a person do something at the other side: `prompt`, `allow`, `deny`, `cancel`."""

    action: str


class Unless(NamedTuple):
    """End here, as not to be run, where something kept is true; `reason` says why."""

    name: str
    path: str
    value: Any
    reason: str


Step = (SendFrame | Again | ExpectFrame | Silence | Never | RefusedLink | Join | CutLink | ExpectClose
        | PersonAction | Unless)


class ConformanceConversation(NamedTuple):
    """One conversation: what it shows, which requirements that is, and its steps. `acks`: whether what comes is
    acknowledged. `slow`: it waits for a limit of ten seconds."""

    name: str
    requirements: tuple[str, ...]
    claim: str
    steps: tuple[Step, ...]
    acks: bool = True
    slow: bool = False


class ConformanceFinding(NamedTuple):
    """How a conversation went: `held`, `broken` or `not run`; `found` says what was found, or why not."""

    name: str
    requirements: tuple[str, ...]
    claim: str
    outcome: str
    found: str = ""


def fill(value: Any, kept: Mapping[str, Any]) -> Any:
    """Put what was kept in the place of each "$name". Raises KeyError for a name that nothing has."""
    if isinstance(value, str):
        return kept[value[1:]] if value.startswith("$") else value
    if isinstance(value, Mapping):
        return {key: fill(inner, kept) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [fill(inner, kept) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def part_of(frame: Any, path: str) -> Any:
    """What lies at a dotted path ("payload.frames.0.seq"), None where nothing does."""
    at = frame
    for step in path.split("."):
        if isinstance(at, dict):
            at = at.get(step)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif isinstance(at, list) and step.isdigit() and int(step) < len(at):  # pyright: ignore[reportUnknownArgumentType]
            at = at[int(step)]  # pyright: ignore[reportUnknownVariableType]
        else:
            return None
    return at  # pyright: ignore[reportUnknownVariableType]


def misfit(frame: dict[str, Any], wanted: Mapping[str, Any], kept: Mapping[str, Any]) -> str | None:
    """What does not fit, as a sentence; None where all does. `message_id` and the like are paths, too."""
    for path, expected in wanted.items():
        found = part_of(frame, path)
        if isinstance(expected, Fit):
            if not expected.test(found):
                return f"{path} is {found!r}, not {expected.said}"
        elif found != (value := fill(expected, kept)):
            return f"{path} is {found!r}, not {value!r}"
    return None
