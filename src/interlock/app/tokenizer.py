"""The tokenizer that counts tokens if it is installed, the extra `tokens` (Z-1)."""

from __future__ import annotations

import importlib
import math
import threading
from importlib.util import find_spec

import structlog

from interlock.session.context.token_estimate import estimated_tokens
from interlock.session.context.tokens import Counter, use_tokenizer

MODULE = "toktok"
"""Includes its ranks: nothing is downloaded at run time."""
ENCODING = "o200k_base"
PROBE = "한 word"

log = structlog.get_logger()


def prepare_tokenizer(*, at_once: bool = False) -> LateTokenizer | None:
    """Count tokens by the tokenizer from the first count on; returns it, None if it is not installed.

    Its ranks take 60 MB and up to seconds to load, so a process that counts nothing does not load them (Y-18). A
    gateway of a cluster loads them at once, before it joins: the loading holds the interpreter, on a thread too, and a
    gateway that does not renew its lease meanwhile is considered dead.
    """
    if find_spec(MODULE) is None:
        return None
    late = LateTokenizer()
    use_tokenizer(late)
    if at_once:
        _load()
    return late


class LateTokenizer:
    """Estimates, loads the tokenizer on a thread at the first count, and is replaced by it."""

    def __init__(self) -> None:
        self._loading = threading.Thread(target=_load, name="tokenizer", daemon=True)
        self._lock = threading.Lock()
        self._is_begun = False

    def __call__(self, text: str) -> int:
        """Return the estimate of a text's tokens."""
        with self._lock:
            if not self._is_begun:
                self._is_begun = True
                self._loading.start()
        return math.ceil(estimated_tokens(text))

    def join(self) -> None:
        """Wait until the tokenizer is loaded, or has failed to; a text must have been counted."""
        self._loading.join()


def _load() -> None:
    try:
        count = _counter()
        count(PROBE)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the extra, the estimate serves.
        use_tokenizer(None)
        log.warning("the installed tokenizer cannot be used; tokens are estimated", error=str(error))
        return
    use_tokenizer(count)
    log.info("tokens are counted by a tokenizer", encoding=ENCODING)


def _counter() -> Counter:
    batch_count = importlib.import_module(MODULE).batch_count

    def count(text: str) -> int:
        # Half a surrogate pair, as a file may contain it, is not text to the tokenizer.
        return int(batch_count([text.encode("utf-8", "replace").decode()], ENCODING, threads=1)[0])

    return count
