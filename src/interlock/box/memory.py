"""Read texts and vectors in the memory of a process that the kernel holds (H-16). Runs in the supervisor."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable

MAX_VECTOR_BYTES = 160 * 1024
"""Limit of a program's arguments, or its environment: a longer one cannot be shown, and is refused (E2BIG)."""
PAGE = 4096
"""Size of one read: the smallest page of any architecture, beyond whose end nothing may be mapped."""
POINTER = 8

Read = Callable[[int, int], bytes]
"""Read memory at an address: at most that many bytes, fewer if the rest cannot be read."""


class Unreadable(Exception):
    """The start cannot be shown; `number` is the errno that the process gets."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class ProcessMemory:
    """The memory of one thread's process. Each page is read once, since a compiler's hundred arguments and variables
    are on a few pages. Call it as a `Read`, and close it."""

    def __init__(self, tid: int) -> None:
        """Open it. Raises OSError if the process is gone or belongs to another user."""
        self._file = os.open(f"/proc/{tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._pages: dict[int, bytes] = {}

    def __call__(self, address: int, size: int) -> bytes:
        """Return the bytes up to the end of the page, at most `size`; none if the page is not mapped."""
        begin = address % PAGE
        page = self._pages.get(address - begin)
        if page is None:
            try:
                page = os.pread(self._file, PAGE, address - begin)
            except (OSError, OverflowError):
                page = b""
            self._pages[address - begin] = page
        return page[begin:begin + size]

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


def text_at(read: Read, address: int, most: int) -> bytes:
    """Read the text that ends with a NUL. Raises Unreadable: E2BIG if it is longer than `most`."""
    found = b""
    while True:
        at = address + len(found)
        piece = read(at, PAGE - at % PAGE)
        if not piece:
            raise Unreadable(errno.EFAULT)
        head, end, _ = piece.partition(b"\0")
        found += head
        if len(found) > most:
            raise Unreadable(errno.E2BIG)
        if end:
            return found


def vector_at(read: Read, address: int, most: int = MAX_VECTOR_BYTES) -> tuple[bytes, ...]:
    """Read a list of texts that ends with a null pointer, unchanged. Raises Unreadable: E2BIG past `most` bytes."""
    if address == 0:
        return ()
    found: list[bytes] = []
    size = 0
    pointers = b""
    while True:
        # Up to the end of the page, not pointer by pointer.
        at = address + POINTER * len(found) + len(pointers)
        piece = read(at, PAGE - at % PAGE)
        if not piece:
            raise Unreadable(errno.EFAULT)
        pointers += piece
        whole = len(pointers) - len(pointers) % POINTER
        for pointer, in struct.iter_unpack("=Q", pointers[:whole]):
            if pointer == 0:
                return tuple(found)
            found.append(text_at(read, pointer, most - size))
            size += len(found[-1]) + POINTER + 1
            if size > most:
                raise Unreadable(errno.E2BIG)
        pointers = pointers[whole:]
