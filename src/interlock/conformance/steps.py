"""The steps of a conversation: frames to send, frames to expect, when to cut the link. Data only; `player` runs them.

In payloads and expectations, a text "$name" is replaced by the value that an earlier step kept under that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})
EXPECT_S = 15.0
"""A frame that is not received within this counts as not sent."""


class Fit(NamedTuple):
    """An expectation other than equality; `description` describes it to a person."""

    test: Callable[[Any], bool]
    description: str


def at_least(number: int) -> Fit:
    """Expect a number that is not below `number`."""

    def test(found: Any) -> bool:
        return isinstance(found, int) and found >= number

    return Fit(test, f"at least {number}")


def holding(part: str) -> Fit:
    """Expect a text or a list that contains `part`."""

    def test(found: Any) -> bool:
        return isinstance(found, str | list) and part in found

    return Fit(test, f"something with {part!r} in it")


def one_of(*values: Any) -> Fit:
    """Expect any of these."""

    def test(found: Any) -> bool:
        return found in values

    return Fit(test, " or ".join(map(repr, values)))


FILLED = Fit(bool, "something")


class SendFrame(NamedTuple):
    """Send a frame. A durable type gets the next number, plus `skip`; `seq` sets one by hand, without using one up.

    `keep` stores the frame, for `Again`, and its message id as `<keep>_id`."""

    kind: str
    payload: Any
    metadata: Mapping[str, Any] = NOTHING
    skip: int = 0
    seq: int | None = None
    keep: str | None = None


class Again(NamedTuple):
    """Send a stored frame once more, unchanged."""

    name: str


class ExpectFrame(NamedTuple):
    """Wait for a frame of this type, ignoring others, and those of this type that `where` does not match.

    `has` must then match; `keep` stores parts of it (name → dotted path). `next_`: it must be the very next frame: of
    the session, or of the link if there is no session yet.
    """

    kind: str
    has: Mapping[str, Any] = NOTHING
    where: Mapping[str, Any] = NOTHING
    keep: Mapping[str, str] = NOTHING
    next_: bool = False
    within_s: float = EXPECT_S


class Silence(NamedTuple):
    """Expect no frame of these types (no type named: no frame at all) for this time."""

    kinds: tuple[str, ...] = ()
    for_s: float = 0.5


class Never(NamedTuple):
    """Expect that no frame of this type has been received since the session began."""

    kind: str


class RefusedLink(NamedTuple):
    """Open a link without hello or welcome. `refused`: it must be refused with one of these HTTP statuses."""

    token: str | None = None
    subprotocol: str | None = None
    refused: tuple[int, ...] = ()


class Join(NamedTuple):
    """Open a link with hello and welcome. `durable`: the acknowledged part of the session that the gateway must report,
    or that we report as the gateway; `control_seq`: the number that a runner reports."""

    durable: Any = None
    control_seq: Any = None


class CutLink(NamedTuple):
    """Break the link without a close frame."""


class ExpectClose(NamedTuple):
    """The other side must close the link, with one of these codes (none named: any)."""

    codes: tuple[int, ...] = ()
    within_s: float = EXPECT_S


class PersonAction(NamedTuple):
    """Carry out a person's action at the other side: `prompt`, `allow`, `deny`, `cancel`."""

    action: str


class Unless(NamedTuple):
    """End here as not applicable if a stored value equals the argument; `reason` is the cause."""

    name: str
    path: str
    value: Any
    reason: str


Step = (SendFrame | Again | ExpectFrame | Silence | Never | RefusedLink | Join | CutLink | ExpectClose
        | PersonAction | Unless)


class ConformanceConversation(NamedTuple):
    """One conversation: what it shows, the requirements, and its steps. `acks`: whether received frames are
    acknowledged. `slow`: it waits for a limit of ten seconds."""

    name: str
    requirements: tuple[str, ...]
    claim: str
    steps: tuple[Step, ...]
    acks: bool = True
    slow: bool = False


class ConformanceFinding(NamedTuple):
    """The outcome of a conversation: `held`, `broken` or `not run`; `found` is the violation, or the reason."""

    name: str
    requirements: tuple[str, ...]
    claim: str
    outcome: str
    found: str = ""


def fill(value: Any, kept: Mapping[str, Any]) -> Any:
    """Replace each "$name" by the stored value. Raises KeyError for an unknown name."""
    if isinstance(value, str):
        return kept[value[1:]] if value.startswith("$") else value
    if isinstance(value, Mapping):
        return {key: fill(inner, kept) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [fill(inner, kept) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def part_of(frame: Any, path: str) -> Any:
    """Return the value at a dotted path ("payload.frames.0.seq"), None if there is none."""
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
    """Return the first mismatch as a sentence; None if all match. `message_id` and the like are paths, too."""
    for path, expected in wanted.items():
        found = part_of(frame, path)
        if isinstance(expected, Fit):
            if not expected.test(found):
                return f"{path} is {found!r}, not {expected.description}"
        elif found != (value := fill(expected, kept)):
            return f"{path} is {found!r}, not {value!r}"
    return None
