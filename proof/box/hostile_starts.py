"""The hostile program of `proof box` that may start `true` and nothing else, and wants `touch made` (H-16, H-20).

`hostile_starts.py NAME`: tries one way. Whether the file is there afterwards decides. Standard library alone: it
runs as any user.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

TOUCH, TRUE = str(Path("/bin/touch").resolve()), str(Path("/bin/true").resolve())
RACES = 40
STORM = 100
libc = ctypes.CDLL(None, use_errno=True)
ESCAPES: dict[str, Callable[[], object]] = {}


def escape(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def keep(made: Callable[[], object]) -> Callable[[], object]:
        ESCAPES[name] = made
        return made

    return keep


def touch() -> None:
    os.execv(TOUCH, ["touch", "made"])


def in_child(act: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


@escape("Start it in a child (fork)")
def fork() -> None:
    in_child(touch)


@escape("Start it by vfork")
def vfork() -> None:
    subprocess.run([TOUCH, "made"], close_fds=False, check=False)


@escape("Start it by posix_spawn")
def spawn() -> None:
    os.waitpid(os.posix_spawn(TOUCH, ["touch", "made"], {}), 0)


@escape("Start it from a thread")
def thread() -> None:
    threading.Thread(target=touch).start()
    time.sleep(1)


@escape("Fork twice, with a session of its own, and start it")
def daemon() -> None:
    def leave() -> None:
        os.setsid()
        if os.fork() == 0:
            touch()

    in_child(leave)
    time.sleep(1)


@escape("Execute an open descriptor (execveat)")
def descriptor() -> None:
    os.execve(os.open(TOUCH, os.O_RDONLY), ["touch", "made"], {})


@escape("Execute it from memory (memfd, execveat)")
def memory() -> None:
    file = os.memfd_create("true")
    os.write(file, Path(TOUCH).read_bytes())
    os.execve(file, ["touch", "made"], {})


@escape("Call it by the loader")
def loader() -> None:
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
        if Path(path).exists():
            os.execv(path, ["true", TOUCH, "made"])


@escape("Call it true, by a link")
def link() -> None:
    Path("true").symlink_to(TOUCH)
    os.execv("./true", ["true", "made"])


@escape("Call a copy of its own true, along PATH")
def along_path() -> None:
    shutil.copy(TOUCH, "true")
    os.execvpe("true", ["true", "made"], {"PATH": str(Path.cwd())})


@escape("Have it started by a script that is called true")
def script() -> None:
    Path("true").write_text(f"#!{TOUCH}\n")
    Path("true").chmod(0o755)
    os.execv("./true", ["true", "made"])


@escape("Have the allowed program load a library of its own (LD_PRELOAD)")
def preload() -> None:
    here = Path.cwd()
    # Without a library, the report of the loader is the evidence.
    os.execve(TRUE, ["true"], {"LD_PRELOAD": f"{here}/x.so", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{here}/made"})


def racing(execute: Callable[[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char], object], object],
           one: bytes, other: bytes, *, path: bool) -> None:
    """Change path or argument to and fro while children execute."""
    shared = mmap.mmap(-1, 8192)
    buffer = (ctypes.c_char * 4096).from_buffer(shared)
    text = (ctypes.c_char * 4096).from_buffer(shared, 4096)
    buffer.value, text.value = TRUE.encode(), b"true"
    moving = buffer if path else text
    turner = os.fork()
    if turner == 0:
        while True:
            moving.value = one
            moving.value = other
    words = (ctypes.c_char_p * 3)()
    pointers = ctypes.cast(words, ctypes.POINTER(ctypes.c_void_p))
    pointers[0] = ctypes.addressof(text)
    made = ctypes.create_string_buffer(b"made")
    if path:
        pointers[1] = ctypes.addressof(made)
    try:
        for _ in range(RACES):
            in_child(lambda: execute(buffer, text, words))
    finally:
        os.kill(turner, signal.SIGKILL)
        os.waitpid(turner, 0)


@escape("Change the path while it is held, again and again")
def race_path() -> None:
    # Both are called with `made`, which `true` does not look at; the rule allows `true made`, too.
    racing(lambda path, _, words: libc.execve(path, words, (ctypes.c_void_p * 1)()), TRUE.encode(), TOUCH.encode(),
           path=True)


@escape("Put another file in its place while it is held, again and again")
def race_file() -> None:
    turner = os.fork()
    if turner == 0:
        while True:
            for target in (TRUE, TOUCH):
                Path("next").symlink_to(target)
                Path("next").rename("true")
    try:
        for _ in range(RACES):
            in_child(lambda: os.execv("true", ["true", "made"]))
    finally:
        os.kill(turner, signal.SIGKILL)
        os.waitpid(turner, 0)


@escape("Start many at once (a storm of vforks)")
def storm() -> None:
    def burst() -> None:
        for _ in range(STORM // 10):
            subprocess.run([TOUCH, "made"], close_fds=False, check=False)

    threads = [threading.Thread(target=burst) for _ in range(10)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@escape("Call the kernel as a 32-bit program (int 0x80)")
def compat() -> None:
    if os.uname().machine != "x86_64":
        return
    low = 0x40
    room = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | low, mmap.PROT_READ | mmap.PROT_WRITE
                     | mmap.PROT_EXEC)
    base = ctypes.addressof(ctypes.c_char.from_buffer(room))
    texts = {512: TOUCH.encode() + b"\0", 768: b"touch\0", 800: b"made\0"}
    for at, text in texts.items():
        room[at:at + len(text)] = text
    room[1024:1036] = (base + 768).to_bytes(4, "little") + (base + 800).to_bytes(4, "little") + bytes(4)
    # mov eax, 11; mov ebx, path; mov ecx, argv; xor edx, edx; int 0x80; ret
    code = (b"\xb8\x0b\0\0\0\xbb" + (base + 512).to_bytes(4, "little") + b"\xb9" + (base + 1024).to_bytes(4, "little")
            + b"\x31\xd2\xcd\x80\xc3")
    room[:len(code)] = code
    ctypes.CFUNCTYPE(ctypes.c_int)(base)()


@escape("Call the kernel by the numbers of x32")
def x32() -> None:
    words = (ctypes.c_char_p * 3)(b"touch", b"made", None)
    for number in (0x4000_0000 | 520, 520, 0x4000_0000 | 59):
        libc.syscall(ctypes.c_long(number), TOUCH.encode(), words, None)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


@escape("Hold programs itself, and let its own go on (a listener of its own)")
def own_listener() -> None:
    execve = {"x86_64": 59, "aarch64": 221}[os.uname().machine]
    steps = ((0x20, 0, 0, 0), (0x15, 0, 1, execve), (0x06, 0, 0, 0x7FC0_0000), (0x06, 0, 0, 0x7FFF_0000))
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    libc.prctl(38, 1, 0, 0, 0)
    listener = libc.syscall(number, 1, 1 << 3, ctypes.byref(_Program(len(steps), code)))
    if listener >= 0:
        if os.fork() == 0:
            touch()
        notice = bytearray(80)
        fcntl.ioctl(listener, 0xC050_2100, notice, True)
        fcntl.ioctl(listener, 0xC018_2101, bytearray(notice[:8] + bytes(12) + (1).to_bytes(4, "little")), True)
        os.wait()
    else:
        touch()


@escape("Take the listener from the supervisor (pidfd_getfd)")
def take_listener() -> None:
    supervisor = os.pidfd_open(os.getppid())
    for number in range(3, 64):
        taken = libc.syscall(438, supervisor, number, 0)
        if taken >= 0:
            os.close(taken)
            write()  # It has a descriptor of the supervisor's: the rest is a matter of ioctls.


@escape("Trace the supervisor (ptrace)")
def trace_supervisor() -> None:
    if libc.ptrace(0x4206, os.getppid(), 0, 0) == 0:
        write()


@escape("Kill the supervisor, and start it")
def kill_supervisor() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    libc.prctl(1, 0, 0, 0, 0)
    os.kill(os.getppid(), signal.SIGKILL)
    touch()


@escape("Mount it over the allowed program, in a namespace of its own")
def mount_over() -> None:
    uid, gid = os.getuid(), os.getgid()
    libc.unshare(0x1002_0000)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    if libc.mount(TOUCH.encode(), TRUE.encode(), None, 0x1000, None) == 0:
        os.execv(TRUE, ["true", "made"])


@escape("Have a traced child execute it")
def traced_child() -> None:
    pid = os.fork()
    if pid == 0:
        libc.ptrace(0, 0, 0, 0)
        touch()
    for _ in range(20):
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return
        libc.ptrace(7, pid, 0, 0)


@escape("Write the file itself, without a program")
def write() -> None:
    Path("made").touch()


def innocent() -> None:
    """Start the allowed program, and report that it ran."""
    if subprocess.run([TRUE], check=False).returncode == 0:
        write()


if __name__ == "__main__":
    ESCAPES.get(sys.argv[1], innocent)()
