"""When a conversation is compacted, and which part of it (Z-2, Z-3).

A plan states what is summarised, which entry is the first one kept, and which files the summarised part touched. It
depends on the path to the leaf only: the same path, settings and figures yield the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from interlock.protocol.limits import MAX_SUMMARY_BYTES, MAX_SUMMARY_CHARS
from interlock.protocol.sizes import json_size
from interlock.session.context.file_operations import Files, files_of
from interlock.session.context.tokens import Calibration, entry_tokens
from interlock.session.transcript.tree import Tree

WINDOW_SHARE = 4
"""The reserve is at most this fraction of the window: a window smaller than it would be compacted at every turn
(Z-2)."""
SOFT_SHARE = 8
"""The margin before a compaction in which memory is flushed is at most this fraction of the window, for the same
reason: what a compaction keeps would be within it."""
KEEP_SHARE = 2
"""What is kept is at most this fraction of what fits before a compaction, or the next turn would compact again."""
MAX_SUMMARY_SHARE = 0.8
"""Share of the reserve that a summary may take (pi's figure)."""


class Flush(msgspec.Struct, frozen=True, kw_only=True):
    """`agents.defaults.compaction.memoryFlush` (Z-5); prompts None mean the default ones."""

    enabled: bool = True
    soft_threshold_tokens: int = 4_000
    prompt: str | None = None
    system_prompt: str | None = None


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`compaction.*` and `agents.defaults.compaction.*` (Z-2), in tokens."""

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    reserve_tokens_floor: int = 20_000
    """Raises `reserve_tokens` only; 0 disables it."""
    memory_flush: Flush = Flush()


class Thresholds(NamedTuple):
    """Sizes of the context in tokens. Beyond `flush` memory is written, beyond `compaction` the conversation is
    compacted; `keep` of it stays, and a summary has at most `summary`."""

    compaction: int
    flush: int
    keep: int
    summary: int


def reserve_tokens(settings: CompactionSettings, window: int) -> int:
    """Return the reserve for the next prompt and answer: raised to the floor, and capped at a quarter of the window
    (Z-2)."""
    return min(max(settings.reserve_tokens, settings.reserve_tokens_floor), max(window, 0) // WINDOW_SHARE)


def size_fault(summary: str) -> str | None:
    """Return why a summary is too large, as a sentence without its full stop; None if it is not (Z-4)."""
    if len(summary) > MAX_SUMMARY_CHARS:
        return f"the summary has {len(summary)} characters, at most {MAX_SUMMARY_CHARS} are taken"
    if len(summary) * 6 > MAX_SUMMARY_BYTES and (size := json_size(summary)) > MAX_SUMMARY_BYTES:
        return f"the summary takes {size} bytes as JSON, at most {MAX_SUMMARY_BYTES} are taken"
    return None


def thresholds(settings: CompactionSettings, window: int) -> Thresholds:
    """Return both thresholds, computed in one place so that a flush always precedes its compaction (Z-5)."""
    reserve = reserve_tokens(settings, window)
    compaction = max(window, 0) - reserve
    soft = min(max(settings.memory_flush.soft_threshold_tokens, 0), max(window, 0) // SOFT_SHARE)
    keep = min(max(settings.keep_recent_tokens, 0), compaction // KEEP_SHARE)
    return Thresholds(compaction, compaction - soft, keep, int(reserve * MAX_SUMMARY_SHARE))


class Path:
    """The entries from the root to the leaf. `ids` and `types` are loaded, an entry is read on demand."""

    def __init__(self, ids: Sequence[str], types: Sequence[str], entry: Callable[[int], Mapping[str, Any]]) -> None:
        self.ids = ids
        self.types = types
        self.entry = entry

    @classmethod
    def of_tree(cls, tree: Tree) -> Path:
        """Return the path of a transcript to its leaf."""
        places = tree.path(tree.leaf)
        nodes = tree.nodes
        return cls([nodes[place].id for place in places], [nodes[place].type for place in places],
                   lambda at: tree.entry(places[at]))

    def __len__(self) -> int:
        return len(self.ids)


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a compaction does, as `control.session.compact` states it: entries by id, sizes in tokens."""

    entry_ids: list[str]
    """The entries to summarise, in order; `turn_head` is the end of it."""
    first_kept: str
    turn_head: list[str] = []
    """The head of the turn that the cut splits: summarised separately, so that the part of the turn that is kept makes
    sense."""
    previous_summary: str | None = None
    """The previous compaction's summary, which the new one continues."""
    read_files: list[str] = []
    modified_files: list[str] = []
    tokens_before: int = 0
    tokens_kept: int = 0
    tokens_summarised: int = 0
    """The size of what the summary replaces, including the previous one: a summary must be shorter."""
    max_summary_tokens: int = 0


class NothingToCompact(ValueError):
    """Raised if there is nothing before the part to keep; the text is one sentence."""


def plan(
    path: Path, settings: CompactionSettings, window: int, *, calibration: Calibration | None = None,
    tokens_before: int | None = None, keep_tokens: int | None = None,
) -> CompactionPlan:
    """Plan a compaction of the path (Z-3). `tokens_before` is the reported size of the context, otherwise it is
    estimated; `keep_tokens` keeps less than the settings. Raises NothingToCompact."""
    calibration = calibration or Calibration()
    limits = thresholds(settings, window)
    keep = limits.keep if keep_tokens is None else min(keep_tokens, limits.keep)
    begin = _begin(path)
    cut = _cut(path, begin.at, keep, calibration)
    if cut.at is None:
        raise NothingToCompact(_nothing(cut.tokens, keep))
    head_at = _turn_start(path, begin.at, cut.at)
    summarised = [at for at in range(begin.at, cut.at) if path.types[at] in CONTRIBUTING]
    gone = _Gone(path, summarised)
    files = files_of(gone.read(), begin.files)
    gone_tokens = calibration.tokens(gone.tokens + begin.summary_tokens)
    before = tokens_before if tokens_before is not None else gone_tokens + cut.tokens
    return CompactionPlan(
        entry_ids=[path.ids[at] for at in summarised], first_kept=path.ids[cut.at],
        turn_head=[path.ids[at] for at in summarised if at >= head_at], previous_summary=begin.summary,
        read_files=files.read, modified_files=files.modified, tokens_before=before, tokens_kept=cut.tokens,
        tokens_summarised=gone_tokens,
        max_summary_tokens=limits.summary,
    )


def tokens_after(before: int, kept: int, summarised: int, summary: int) -> int:
    """Return the size of a context after its compaction, in the measure of `before`, which may be the agent's own.

    The other three are estimates, and may be far from what the agent reports: only their ratio is used. A reported size
    beside an estimate could show a compaction that made the context larger (Z-4)."""
    estimated = kept + summarised
    return round(before * (kept + summary) / estimated) if estimated > 0 else kept + summary


def estimated_tokens(path: Path) -> int:
    """Estimate the whole context of the path, without any calibration (X-1, Z-1)."""
    begin = _begin(path)
    return _estimate(path, begin.at) + begin.summary_tokens


CONTRIBUTING = frozenset({"message", "custom_message", "branch_summary"})
"""Types of the entries that are part of the model's context (X-1)."""
_STARTS = frozenset({"custom_message", "branch_summary"})
_CUT_ROLES = frozenset({"user", "assistant", "bashExecution", "custom", "branchSummary"})
_START_ROLES = frozenset({"user", "bashExecution"})


class _Begin(NamedTuple):
    """The start of what was not summarised yet, and what the previous compaction left."""

    at: int
    summary: str | None
    files: Files
    summary_tokens: int


class _Cut(NamedTuple):
    """Position of the first entry that is kept, None if everything is; and the tokens from there on."""

    at: int | None
    tokens: int


class _Gone:
    """What is summarised, read once and never held: up to 100,000 entries are counted in passing."""

    def __init__(self, path: Path, places: Sequence[int]) -> None:
        self._path = path
        self._places = places
        self.tokens = 0
        """Estimated tokens of what was read so far."""

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Yield each entry in order."""
        for at in self._places:
            entry = self._path.entry(at)
            self.tokens += entry_tokens(entry)
            yield entry


def _nothing(tokens: int, keep: int) -> str:
    if tokens < keep:
        return f"the conversation has about {tokens} tokens since its last summary, and the last {keep} are always kept"
    return (f"all of its about {tokens} tokens since its last summary would be kept: at least the last {keep} are, and "
            "no message is cut in two")


def _begin(path: Path) -> _Begin:
    """Return where a compaction starts: a second one starts at the first entry that the previous one kept, not after
    it, or the kept tail would be lost (Z-3)."""
    last = next((at for at in range(len(path) - 1, -1, -1) if path.types[at] == "compaction"), None)
    if last is None:
        return _Begin(0, None, Files([], []), 0)
    compaction = path.entry(last)
    first, summary = compaction.get("firstKeptEntryId"), str(compaction.get("summary", ""))
    begin = next((at for at in range(last) if path.ids[at] == first), last + 1)
    return _Begin(begin, summary or None, Files.of_details(compaction.get("details")), entry_tokens(compaction))


def _cut(path: Path, begin: int, keep: int, calibration: Calibration) -> _Cut:
    """Walk back until `keep` is filled. A position whose later results answer earlier calls is not a position to
    cut."""
    open_results: set[str] = set()
    found: _Cut | None = None
    tokens = 0
    first = next((at for at in range(begin, len(path)) if path.types[at] in CONTRIBUTING), len(path))
    for at in range(len(path) - 1, begin - 1, -1):
        if path.types[at] not in CONTRIBUTING:
            continue
        entry = path.entry(at)
        tokens += calibration.tokens(entry_tokens(entry))
        _follow(entry, open_results)
        if not open_results and _may_cut(entry):
            found = _Cut(at, tokens)
        # If one result alone exceeds what is kept, the call it answers is kept with it.
        if tokens >= keep and found is not None and found.at is not None:
            return found if found.at > first else _Cut(None, tokens)
    return _Cut(None, tokens)


def _follow(entry: Mapping[str, Any], open_results: set[str]) -> None:
    message = _message(entry)
    if message.get("role") == "toolResult":
        open_results.add(str(message.get("toolCallId")))
    elif open_results and message.get("role") == "assistant":
        open_results.difference_update(call_ids(message))


def call_ids(message: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tool calls in a message, in order."""
    content = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return [str(cast("dict[str, Any]", part).get("id")) for part in parts
            if isinstance(part, dict) and cast("dict[str, Any]", part).get("type") == "toolCall"]


def _may_cut(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") in _STARTS or _message(entry).get("role") in _CUT_ROLES


def _turn_start(path: Path, begin: int, cut: int) -> int:
    """Return the start of the turn that the cut splits; `cut` itself if it splits none."""
    for at in range(cut, begin - 1, -1):
        if path.types[at] in _STARTS:
            return at
        if path.types[at] == "message" and _message(path.entry(at)).get("role") in _START_ROLES:
            return at
    return cut


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    message = entry.get("message")
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


def _estimate(path: Path, begin: int) -> int:
    return sum(entry_tokens(path.entry(at)) for at in range(begin, len(path)) if path.types[at] in CONTRIBUTING)
