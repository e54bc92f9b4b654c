"""The tokenizer that counts tokens where it is installed, the extra `tokens` (Z-1)."""

from __future__ import annotations

import importlib
import threading
from importlib.util import find_spec

import structlog

from interlock.session.tokens import Counter, use_tokenizer

MODULE = "toktok"
"""Brings its ranks with it: nothing is fetched at run time."""
ENCODING = "o200k_base"
PROBE = "한 word"

log = structlog.get_logger()


def begin_tokenizer() -> threading.Thread | None:
    """Load the tokenizer on a thread, and count with it from then on: loading takes up to seconds, and the estimate is
    there until it is done. None if it is not installed."""
    if find_spec(MODULE) is None:
        return None
    thread = threading.Thread(target=_load, name="tokenizer", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    try:
        count = _counter()
        count(PROBE)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the extra, the estimate serves.
        log.warning("the installed tokenizer cannot be used; tokens are estimated", error=str(error))
        return
    use_tokenizer(count)
    log.info("tokens are counted by a tokenizer", encoding=ENCODING)


def _counter() -> Counter:
    batch_count = importlib.import_module(MODULE).batch_count

    def count(text: str) -> int:
        # Half a surrogate pair, as a file may hold it, is no text to the tokenizer.
        return int(batch_count([text.encode("utf-8", "replace").decode()], ENCODING, threads=1)[0])

    return count
