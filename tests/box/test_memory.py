"""How arguments are read from the memory of a process that is held (H-16)."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from interlock.box import memory
from interlock.box.memory import Unreadable, text_at, vector_at

PAGE = memory.PAGE


class Mapped:
    """Memory of some pages; the rest is not mapped."""

    def __init__(self, base: int, data: bytes) -> None:
        self.base = base
        self.data = data

    def __call__(self, address: int, size: int) -> bytes:
        begin = address - self.base
        return self.data[begin:begin + size] if 0 <= begin < len(self.data) else b""


def laid_out(*texts: bytes) -> tuple[Mapped, int]:
    """Texts at the end of the mapped memory, and the list of pointers to them before."""
    base = 16 * PAGE
    pointers, strings = b"", b""
    for text in texts:
        pointers += (base + PAGE + len(strings)).to_bytes(8, "little")
        strings += text + b"\0"
    return Mapped(base, (pointers + bytes(8)).ljust(PAGE, b"\xee") + strings), base


@pytest.mark.req("H-16")
def test_arguments_are_read_byte_for_byte() -> None:
    texts = (b"", b"sh", b"-c", b"\xff\xfe\n", b"x" * 9000, b"")
    assert vector_at(*laid_out(*texts)) == texts
    assert vector_at(Mapped(0, b""), 0) == ()


@pytest.mark.req("H-16")
def test_too_many_arguments_are_refused_and_bad_pointers_fail_as_in_the_kernel() -> None:
    with pytest.raises(Unreadable) as long:
        vector_at(*laid_out(b"x" * 600, b"y" * 600), most=1000)
    with pytest.raises(Unreadable) as endless:
        text_at(Mapped(0, b"x" * 3 * PAGE), 0, PAGE)
    with pytest.raises(Unreadable) as unmapped:
        text_at(Mapped(0, b"no end"), 0, PAGE)

    assert (long.value.number, endless.value.number, unmapped.value.number) == (
        errno.E2BIG, errno.E2BIG, errno.EFAULT)


@pytest.mark.req("H-16")
def test_a_vector_at_any_page_offset_is_read_to_its_end() -> None:
    texts = tuple(b"argument %d" % number for number in range(1000))
    for offset in (0, 1, 4, PAGE - 4, PAGE - 8):
        base = 16 * PAGE + offset
        strings = base + 8 * (len(texts) + 1)
        pointers, data = b"", b""
        for text in texts:
            pointers += (strings + len(data)).to_bytes(8, "little")
            data += text + b"\0"
        assert vector_at(Mapped(base, pointers + bytes(8) + data), base) == texts


@pytest.mark.req("H-16")
@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs Linux's /proc")
def test_each_page_of_a_process_is_read_once_and_unmapped_memory_is_empty() -> None:
    text = ctypes.create_string_buffer(b"before")
    address = ctypes.addressof(text)
    held = memory.ProcessMemory(os.getpid())
    try:
        assert text_at(held, address, PAGE) == b"before"
        text.value = b"later"
        assert text_at(held, address, PAGE) == b"before"
        assert held(0, 8) == held(1 << 63, 8) == held((1 << 64) - 8, 8) == b""
    finally:
        held.close()
