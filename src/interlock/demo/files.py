"""The demonstration's files, the commands that read them, and the output to expect. Pure, except for `write`."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

NAMES = ("birds", "harbours", "letters", "mountains", "numbers", "proverbs")
LINES = 90
"""Lines in each file; all of them together stay below what a tool's result keeps whole (E-5)."""
SCRIPT = "read-aloud"
SEEN, CUT = "seen", "cut"
"""Marks: a viewer has seen the beginning; the link has been cut."""
SEEN_AT, CUT_AT = 120, 300
"""Lines after which the script waits for a mark."""

_WORDS = ("Möwe", "žába", "海鳥", "птица", "🐦‍⬛", "πουλί", "طائر", "naïve cafe\u0301",
          "<b>&amp;</b>", "back\\slash", "  two  ", '"quoted"', "100 %s")

_READ_ALOUD = f"""\
# Prints every line of every file. The marks make sure that output is still being made when the link is cut,
# and continues while there is none.
until_marked() {{ until [ -e "../marks/$1" ]; do sleep 0.02; done; }}
count=0
cat *.txt | while IFS= read -r line; do
  printf '%s\\n' "$line"
  count=$((count + 1))
  case $count in
    {SEEN_AT}) until_marked {SEEN} ;;
    {CUT_AT}) until_marked {CUT} ;;
  esac
done
"""

COMMANDS = ("ls *.txt", f"sh ./{SCRIPT}", "cksum *.txt")
HELD = COMMANDS[1]
"""The command that a person is asked about."""
FREE = re.escape(COMMANDS[0]) + "|" + re.escape(COMMANDS[2])
"""Pattern of the commands that a rule of the demonstration's config allows."""


def content(name: str) -> str:
    """Return a file's text: the same in every run."""
    lines: list[str] = []
    for number in range(1, LINES + 1):
        digest = hashlib.sha256(f"{name} {number}".encode()).hexdigest()
        words = (_WORDS[int(digest[at:at + 2], 16) % len(_WORDS)] for at in (0, 2, 4))
        lines.append(f"{name} {number:03d} {' · '.join(words)} {digest[:24]}\n")
    return "".join(lines)


def write(workspace: Path) -> None:
    """Create the files and the script."""
    workspace.mkdir()
    for name in NAMES:
        (workspace / f"{name}.txt").write_text(content(name), "utf-8")
    (workspace / SCRIPT).write_text(_READ_ALOUD, "utf-8")


def expected(workspace: Path) -> str:
    """Return the text that a viewer must see, from the files: names, lines, checksums, and the agent's message."""
    files = sorted(workspace.glob("*.txt"))
    names = "".join(f"{file.name}\n" for file in files)
    lines = b"".join(file.read_bytes() for file in files).decode("utf-8")
    sums = "".join(f"{cksum(raw)} {len(raw)} {file.name}\n" for file in files for raw in (file.read_bytes(),))
    return f"{names}{lines}{sums}ran {len(COMMANDS)} commands"


def seen_chars() -> int:
    """Return the length of the script's output before it waits to be seen."""
    lines = "".join(map(content, NAMES)).splitlines(keepends=True)
    return sum(map(len, lines[:SEEN_AT]))


def cksum(raw: bytes) -> int:
    """Compute the CRC that POSIX's `cksum` prints."""
    size, tail = len(raw), bytearray()
    while size:
        tail.append(size & 0xFF)
        size >>= 8
    crc = 0
    for byte in raw + tail:
        crc = (crc << 8) & 0xFFFFFFFF ^ _CRC[(crc >> 24) ^ byte]
    return crc ^ 0xFFFFFFFF


def _crc_row(byte: int) -> int:
    crc = byte << 24
    for _ in range(8):
        crc = (crc << 1 ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return crc


_CRC = tuple(_crc_row(byte) for byte in range(256))
