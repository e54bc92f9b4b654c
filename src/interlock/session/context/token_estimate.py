"""Estimation of a text's tokens without a tokenizer (Z-1). Pure.

The density of a text depends not on its length but on its kind: a common word is one token, rare letters and consonants
in a row are one each, a Hangul syllable is anything from half a token to three. Each kind has a weight that was fitted
against a public tokenizer (`token_weights`); characters that it splits are counted as it splits them.
"""

from __future__ import annotations

import base64
import re
import zlib
from bisect import bisect_right
from collections import Counter
from functools import cache

from interlock.session.context import token_weights as w

_LETTERS = bytes([*range(0x41, 0x5B), *range(0x61, 0x7B)])
_DIGITS = b"0123456789"
_FREQUENT = b"._-/,()\"'=:"
_SIGN = bytes(at for at in range(0x21, 0x7F) if not chr(at).isalnum() and at not in _FREQUENT)
_CONTROL = bytes([*range(0x0A), *range(0x0B, 0x20), 0x7F])
_ASCII = bytes(range(0x80))
_PIECE = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+")
"""A word of a name in camel case, or in capitals."""
_CONSONANTS = re.compile(rb"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{4,}")


def _only(kept: bytes) -> bytes:
    """Return a table that turns all bytes but `kept` into spaces."""
    return bytes(at if at in kept else 0x20 for at in range(256))


_WORDS, _NUMBERS, _RUNS = _only(_LETTERS), _only(_DIGITS), _only(bytes(range(0x80, 0x100)))
_SIGNS = _only(_FREQUENT + _SIGN)
_ALNUM = bytes(0x61 if at in _LETTERS else 0x30 if at in _DIGITS else 0x20 for at in range(256))
_KNOWN = frozenset(w.WORDS.encode().split())
_LETTER = {ord(letter): weight for letters, weight in w.LETTERS for letter in letters}
_BLOCK_STARTS, _BLOCK_WEIGHTS = [start for start, _ in w.BLOCKS], [weight for _, weight in w.BLOCKS]


def estimated_tokens(text: str) -> float:
    """Return about how many tokens a text has: rather too many than too few."""
    data = text.encode("utf-8", "replace")
    # Everything here runs at memory speed, except what is done once for each distinct word and character.
    found = sum(count * _word(word) for word, count in Counter(data.translate(_WORDS).split()).items())
    rest, signs = data.translate(None, _LETTERS), 0
    for kind, weight in ((b" ", w.SPACE), (_FREQUENT, w.FREQUENT_SIGN), (_SIGN, w.SIGN), (b"\n", w.LINE),
                         (_CONTROL, w.CONTROL), (_DIGITS, w.DIGIT)):
        left = rest.translate(None, kind)
        taken = len(rest) - len(left)
        found += taken * weight
        if taken and kind is _DIGITS:
            found += _numbers(data)
        elif taken and kind in (_FREQUENT, _SIGN):
            signs += taken
        rest = left
        if not rest:
            break
    if signs:
        found += (len(data.translate(_SIGNS).split()) if signs > 1 else 1) * w.SIGNS
    if rest:
        found += len(data.translate(_RUNS).split()) * w.NON_ASCII_RUN
        beyond = data.translate(None, _ASCII).decode("utf-8", "replace")
        found += sum(count * _character(char) for char, count in Counter(beyond).items())
    return found


def _numbers(data: bytes) -> float:
    kinds = data.translate(_ALNUM)
    return (len(data.translate(_NUMBERS).split()) * w.NUMBER
            + (kinds.count(b"a0") + kinds.count(b"0a")) * w.BESIDE_DIGIT)


def _word(word: bytes) -> float:
    if word.islower() or (word[1:].islower() and word[0] < 0x61):
        return _piece(word)
    return sum(map(_piece, _PIECE.findall(word)))


def _piece(word: bytes) -> float:
    if word.lower() in _KNOWN:
        return w.WORD if word[1:].islower() or len(word) == 1 else w.WORD_IN_CAPITALS
    if len(word) > 1 and word.isupper():
        return len(word) * w.UPPER_AGAIN + _rows(word)
    first = w.UPPER if word[0] < 0x61 else _LETTER[word[0]]
    return first + sum(map(_LETTER.__getitem__, word[1:])) + _rows(word)


def _rows(word: bytes) -> float:
    return sum(len(row) - 3 for row in _CONSONANTS.findall(word)) * w.CONSONANTS if len(word) > 3 else 0.0


def _character(char: str) -> float:
    point = ord(char)
    if point > 0xFFFF:
        return w.EMOJI if 0x1F000 <= point < 0x1FB00 else w.BEYOND
    alone = _table()[point >> 2] >> ((point & 3) * 2) & 3
    return _BLOCK_WEIGHTS[bisect_right(_BLOCK_STARTS, point) - 1] if alone == 1 else float(alone or 1)


@cache
def _table() -> bytes:
    return zlib.decompress(base64.b85decode("".join(w.CHARACTERS)))
