"""A program that tries to read one hidden key, by every known way (H-15, H-20).

`python -I -S hostile_program.py ORDERS NAME`: a JSON file of {state, work, alias, outside, key_fd, address, abstract,
handle, device, suid}. Prints the outcome of one escape: "held: why", "done" or "got …". Standard library alone: it runs
as any user, from anywhere.
"""

# The calls themselves are what is tried, so they are written as such.
# ruff: noqa: BLE001, PTH101, PTH102, PTH103, PTH104, PTH108, PTH123, PTH208, PTH211
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
ESCAPE_S = 10
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
SYS = {"x86_64": {"open_by_handle_at": 304, "process_vm_readv": 310, "init_module": 175, "ptrace": 101,
                  "fanotify_init": 300, "fanotify_mark": 301},
       "aarch64": {"open_by_handle_at": 265, "process_vm_readv": 270, "init_module": 105, "ptrace": 117,
                   "fanotify_init": 262, "fanotify_mark": 263}}
PIDFD_OPEN, PIDFD_GETFD, OPEN_TREE = 434, 438, 428
ORDERS: dict[str, Any] = {}
ESCAPES: dict[str, tuple[str, Callable[[], bytes | None]]] = {}
"""name → (group, function). It returns the bytes that it got, or None for "done"; an exception means "held"."""


def escape(group: str) -> Callable[[Callable[[], bytes | None]], Callable[[], bytes | None]]:
    """Name a way out by its docstring."""
    def named(function: Callable[[], bytes | None]) -> Callable[[], bytes | None]:
        ESCAPES[" ".join((function.__doc__ or "").split()).rstrip(".")] = group, function
        return function
    return named


def call(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system(name: str, *arguments: object) -> int:
    return call(libc.syscall(ctypes.c_long(SYS[os.uname().machine][name]), *arguments))


def state(name: str = "owner.key") -> str:
    return f"{ORDERS['state']}/{name}"


def read(path: str | int) -> bytes:
    with open(path, "rb") as file:
        return file.read(4096)


def own_namespace(*, user: bool = True) -> None:
    """A mount namespace of our own, in which we are root."""
    uid, gid = os.getuid(), os.getgid()
    call(libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    call(libc.mount(source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags),
                    data and data.encode()))


def outside(name: str) -> str:
    return f"/proc/{ORDERS['outside']}/{name}"


# --- by its name ---
@escape("read")
def by_path() -> bytes:
    """Open it by its path."""
    return read(state())


@escape("read")
def by_own_root() -> bytes:
    """Open it below /proc/self/root."""
    return read("/proc/self/root" + state())


@escape("read")
def by_task_cwd() -> bytes:
    """Walk up from /proc/self/cwd."""
    return read(f"/proc/self/cwd/{os.path.relpath(state())}")


@escape("read")
def by_symlink() -> bytes:
    """Lead a symbolic link to it."""
    os.symlink(ORDERS["state"], "link")
    return read("link/owner.key")


@escape("read")
def by_hard_link() -> bytes:
    """Make a hard link to it."""
    os.link(state(), "hard")
    return read("hard")


@escape("read")
def by_renaming() -> bytes:
    """Move it into the workspace."""
    os.rename(state(), "moved.key")
    return read("moved.key")


@escape("read")
def by_renaming_directory() -> bytes:
    """Move its directory."""
    os.rename(ORDERS["state"], "moved")
    return read("moved/owner.key")


@escape("read")
def by_renaming_above() -> bytes:
    """Move the directory above it."""
    above = str(Path(ORDERS["state"]).parent)
    os.rename(above, above + ".moved")
    try:
        return read(f"{above}.moved/{Path(ORDERS['state']).name}/owner.key")
    finally:
        os.rename(above + ".moved", above)


@escape("read")
def by_directory_descriptor() -> bytes:
    """Open it relative to a descriptor of its directory (O_PATH)."""
    directory = os.open(ORDERS["state"], os.O_PATH)
    return read(os.open("owner.key", os.O_RDONLY, dir_fd=directory))


@escape("read")
def by_alias() -> bytes:
    """Open it by the bind mount of its directory, too."""
    return read(f"{ORDERS['alias']}/owner.key")


@escape("read")
def by_handle() -> bytes:
    """Open it by its file handle (open_by_handle_at)."""
    raw = bytes.fromhex(ORDERS["handle"])
    at = os.open(ORDERS["work"], os.O_RDONLY)
    return read(system("open_by_handle_at", at, ctypes.create_string_buffer(raw, len(raw)), os.O_RDONLY))


# --- by another process ---
@escape("read")
def by_setsid() -> bytes:
    """Fork twice, with a session of its own, and open it."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.write(writing, read(state()))
        os._exit(0)
    os.close(writing)
    if not (got := os.read(reading, 4096)):
        raise OSError("nothing came")
    return got


@escape("read")
def by_memory_file() -> bytes:
    """Execute a program from memory (memfd, execveat) that opens it."""
    descriptor = os.memfd_create("cat")
    os.write(descriptor, Path("/bin/cat").read_bytes())
    return subprocess.run([f"/proc/self/fd/{descriptor}", state()], pass_fds=(descriptor,), check=True,
                          capture_output=True).stdout


@escape("read")
def by_loader() -> bytes:
    """Have a preloaded library's place opened by the loader (LD_PRELOAD)."""
    printed = subprocess.run(["/bin/true"], env={"LD_PRELOAD": state()}, capture_output=True, check=False).stderr
    if b"cannot open shared object" in printed or b"Permission denied" in printed or not printed:
        raise OSError("the loader cannot open it")
    return printed


@escape("read")
def by_set_user_id() -> bytes:
    """Run a set-user-id program of root's that reads it."""
    return subprocess.run([ORDERS["suid"], state()], check=True, capture_output=True).stdout


@escape("read")
def by_outside_root() -> bytes:
    """Open it below /proc/PID/root of the gateway."""
    return read(outside("root") + state())


@escape("read")
def by_outside_cwd() -> bytes:
    """Open it below /proc/PID/cwd of the gateway."""
    return read(outside("cwd/owner.key"))


@escape("read")
def by_outside_descriptor() -> bytes:
    """Open the gateway's own descriptor of it (/proc/PID/fd)."""
    return read(outside(f"fd/{ORDERS['key_fd']}"))


@escape("read")
def by_parent_root() -> bytes:
    """Open it below /proc/PID/root of the supervisor."""
    return read(f"/proc/{ORDERS['parent']}/root{state()}")


@escape("read")
def by_environment() -> bytes:
    """Read the gateway's environment."""
    return read(outside("environ"))


@escape("read")
def by_memory() -> bytes:
    """Read the gateway's memory (/proc/PID/mem)."""
    with open(outside("maps"), encoding="ascii") as maps:
        start = next(int(line.split("-")[0], 16) for line in maps if "[heap]" in line or "[stack]" in line)
    with open(outside("mem"), "rb", buffering=0) as memory:
        memory.seek(start)
        return memory.read(16)


@escape("read")
def by_ptrace() -> None:
    """Trace the gateway (ptrace)."""
    system("ptrace", 0x4206, ORDERS["outside"], 0, 0)  # PTRACE_SEIZE


def memory_of(process: int, address: int) -> bytes:
    """What another process has at an address, by process_vm_readv."""
    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))
    held = ctypes.create_string_buffer(16)
    here, there = Vector(ctypes.addressof(held), 16), Vector(address, 16)
    system("process_vm_readv", ctypes.c_int(process), ctypes.byref(here), ctypes.c_ulong(1),
           ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0))
    return held.raw


@escape("read")
def by_vm_read() -> bytes:
    """Read the gateway's memory (process_vm_readv)."""
    return memory_of(ORDERS["outside"], ORDERS["address"])


@escape("read")
def by_pidfd() -> bytes:
    """Take the gateway's descriptor of it (pidfd_getfd)."""
    process = call(libc.syscall(ctypes.c_long(PIDFD_OPEN), ctypes.c_int(ORDERS["outside"]), ctypes.c_uint(0)))
    taken = call(libc.syscall(ctypes.c_long(PIDFD_GETFD), ctypes.c_int(process), ctypes.c_int(ORDERS["key_fd"]),
                              ctypes.c_uint(0)))
    return os.pread(taken, 4096, 0)


@escape("read")
def by_thread_root() -> bytes:
    """Open it below /proc/PID/task/TID/root of the gateway."""
    return read(outside(f"task/{ORDERS['outside']}/root") + state())


@escape("read")
def by_watching() -> bytes:
    """Have the kernel open it whenever the gateway does (fanotify)."""
    watch = system("fanotify_init", ctypes.c_uint(0), ctypes.c_uint(os.O_RDONLY))
    system("fanotify_mark", ctypes.c_int(watch), ctypes.c_uint(1), ctypes.c_uint64(0x20), ctypes.c_int(-100),
           state().encode())
    return b"a watch"


def by_way_of_a_ring(entry: bytes) -> int:
    """Run one entry of an io_uring in the kernel, and return its result."""
    parameters = ctypes.create_string_buffer(120)
    ring = call(libc.syscall(ctypes.c_long(425), ctypes.c_uint(2), parameters))
    offsets = struct.unpack_from("=10I", parameters.raw, 40)  # Of the submissions: head, tail, mask, …, array.
    completed = struct.unpack_from("=10I", parameters.raw, 80)
    room = completed[5] + 16 * 8
    with mmap.mmap(ring, room, offset=0) as both, mmap.mmap(ring, 64 * 2, offset=0x1000_0000) as entries:
        entries[:64] = entry
        struct.pack_into("=I", both, offsets[6], 0)
        struct.pack_into("=I", both, offsets[1], 1)
        call(libc.syscall(ctypes.c_long(426), ctypes.c_uint(ring), ctypes.c_uint(1), ctypes.c_uint(1), ctypes.c_uint(1),
                          None, ctypes.c_size_t(0)))
        mark, result = struct.unpack_from("=Qi", both, completed[5])
    if mark != 7 or result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@escape("read")
def by_ring() -> bytes:
    """Open it by a ring, without the call (io_uring)."""
    path = ctypes.create_string_buffer(state().encode())
    return read(by_way_of_a_ring(struct.pack(
        "=BBHiQQIIQ24x", 18, 0, 0, -100, 0, ctypes.addressof(path), 0, os.O_RDONLY, 7)))


@escape("read")
def by_passed_descriptor() -> bytes:
    """Have a program outside pass its descriptor of it (SCM_RIGHTS)."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(ORDERS["passing_socket"])
        _, descriptors, _, _ = socket.recv_fds(link, 16, 1)
        return os.pread(descriptors[0], 4096, 0)


@escape("read")
def by_sibling() -> None:
    """Trace an agent in a box of the same kind (ptrace)."""
    system("ptrace", 0x4206, ORDERS["sibling"], 0, 0)  # PTRACE_SEIZE


@escape("read")
def by_sibling_memory() -> bytes:
    """Read the memory of an agent in a box of the same kind (/proc/PID/mem)."""
    with open(f"/proc/{ORDERS['sibling']}/mem", "rb", buffering=0) as memory:
        memory.seek(ORDERS["sibling_address"])
        return memory.read(16)


@escape("read")
def by_sibling_vm_read() -> bytes:
    """Read the memory of an agent in a box of the same kind (process_vm_readv)."""
    return memory_of(ORDERS["sibling"], ORDERS["sibling_address"])


@escape("read")
def by_sibling_descriptor() -> bytes:
    """Take a descriptor of an agent in a box of the same kind (pidfd_getfd)."""
    process = call(libc.syscall(ctypes.c_long(PIDFD_OPEN), ctypes.c_int(ORDERS["sibling"]), ctypes.c_uint(0)))
    taken = call(libc.syscall(ctypes.c_long(PIDFD_GETFD), ctypes.c_int(process), ctypes.c_int(0), ctypes.c_uint(0)))
    return b"a pipe, mode %o" % os.fstat(taken).st_mode


@escape("read")
def by_sibling_root() -> bytes:
    """Look into the box of an agent beside it (/proc/PID/root)."""
    return b"\n".join(os.listdir(f"/proc/{ORDERS['sibling']}/root".encode()))


# --- by mounts ---
@escape("read")
def by_setns() -> bytes:
    """Enter the gateway's mount namespace (setns)."""
    call(libc.setns(os.open(outside("ns/mnt"), os.O_RDONLY), CLONE_NEWNS))
    return read(state())


@escape("read")
def by_unmount() -> bytes:
    """Unmount what covers it."""
    libc.umount2(ORDERS["state"].encode(), MNT_DETACH)
    return read(state())


@escape("read")
def by_namespace_of_its_own() -> bytes:
    """Unmount what covers it, in a user namespace of its own."""
    own_namespace()
    libc.umount2(ORDERS["state"].encode(), MNT_DETACH)
    return read(state())


@escape("read")
def by_root_namespace() -> bytes:
    """Unmount what covers it, in a mount namespace of its own."""
    own_namespace(user=False)
    libc.umount2(ORDERS["state"].encode(), MNT_DETACH)
    return read(state())


@escape("read")
def by_bind() -> bytes:
    """Bind the directory above it elsewhere, without what is mounted below, in a namespace of its own."""
    own_namespace()
    os.makedirs("bound")
    mount(str(Path(ORDERS["state"]).parent), "bound", None, MS_BIND)
    return read(f"bound/{Path(ORDERS['state']).name}/owner.key")


@escape("read")
def by_overlay() -> bytes:
    """Mount the directory above it as the lower layer of an overlay, in a namespace of its own."""
    own_namespace()
    os.makedirs("merged")
    above = Path(ORDERS["state"])
    mount("overlay", "merged", "overlay", 0, f"lowerdir={above.parent}:/usr/share")
    return read(f"merged/{above.name}/owner.key")


@escape("read")
def by_tree() -> bytes:
    """Clone the tree above it (open_tree), in a namespace of its own."""
    own_namespace()
    above = Path(ORDERS["state"])
    tree = call(libc.syscall(ctypes.c_long(OPEN_TREE), ctypes.c_int(-100), str(above.parent).encode(),
                             ctypes.c_uint(1)))
    return read(os.open(f"{above.name}/owner.key", os.O_RDONLY, dir_fd=tree))


# --- below the file system, and through the kernel ---
@escape("read")
def by_made_device() -> bytes:
    """Make the disk's device (mknod) and read it."""
    os.mknod("disk", 0o060600, ORDERS["device"])
    return read(os.open("disk", os.O_RDONLY))[:16]


@escape("read")
def by_device() -> bytes:
    """Read a disk's device in /dev."""
    for directory, _, names in os.walk("/dev"):
        for name in names:
            path = f"{directory}/{name}"
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mode & 0o170000 == 0o060000:
                    return read(os.open(path, os.O_RDONLY))[:16]
    raise OSError("none can be read")


@escape("kernel")
def by_core_pattern() -> None:
    """Open what names the kernel's own programs for writing (core_pattern)."""
    os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@escape("kernel")
def by_sysrq() -> None:
    """Open /proc/sysrq-trigger for writing."""
    os.open("/proc/sysrq-trigger", os.O_WRONLY)


@escape("kernel")
def by_module() -> None:
    """Load code into the kernel (init_module)."""
    try:
        system("init_module", None, ctypes.c_ulong(0), b"")
    except OSError as failed:
        if failed.errno == 1:
            raise
        if failed.errno == 38:
            raise OSError("there is no such call") from None


@escape("kernel")
def by_kernel_memory() -> None:
    """Open the kernel's memory (/dev/mem, /proc/kcore)."""
    for path in ("/dev/mem", "/proc/kcore"):
        with contextlib.suppress(OSError):
            os.open(path, os.O_RDONLY)
            return
    raise OSError("neither can be opened")


@escape("kernel")
def by_binary_format() -> None:
    """Open what registers interpreters for the whole host for writing (binfmt_misc)."""
    os.open("/proc/sys/fs/binfmt_misc/register", os.O_WRONLY)


@escape("kernel")
def by_module_loader() -> None:
    """Open what names the program that loads the kernel's modules for writing (modprobe)."""
    os.open("/proc/sys/kernel/modprobe", os.O_WRONLY)


@escape("kernel")
def by_release_agent() -> None:
    """Write what names the program that the kernel runs for an empty control group (release_agent)."""
    for path in Path("/sys/fs/cgroup").glob("*/release_agent"):
        with contextlib.suppress(OSError):
            named = path.read_bytes()
            path.write_bytes(named or b"\n")
            return
    raise OSError("none can be written")


# --- to change it ---
@escape("change")
def overwritten() -> None:
    """Overwrite a file of it."""
    with open(state(), "wb") as file:
        file.write(b"mine")


@escape("change")
def truncated() -> None:
    """Truncate a file of it (truncate)."""
    os.truncate(state("ledger.db"), 0)


@escape("change")
def removed() -> None:
    """Remove a file of it."""
    os.unlink(state("ledger.db"))


@escape("change")
def made() -> None:
    """Make a file in it."""
    Path(state("interlock.toml")).write_text("[policy]")


@escape("change")
def made_directory() -> None:
    """Make a directory in it."""
    os.mkdir(state("new"))


@escape("change")
def replaced() -> None:
    """Move a file of its own over one of it."""
    Path("own").write_text("mine")
    os.rename("own", state())


@escape("change")
def swapped() -> None:
    """Move its directory away and put another one there."""
    os.rename(ORDERS["state"], ORDERS["state"] + ".old")


@escape("change")
def opened_to_all() -> None:
    """Change the mode of a file of it."""
    os.chmod(state(), 0o666)


# --- from the person's terminal ---
@escape("terminal")
def read_terminal() -> bytes:
    """Read what is typed at a terminal of its user's (/dev/pts)."""
    return os.read(os.open(ORDERS["terminal"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK), 64)


@escape("terminal")
def written_terminal() -> None:
    """Write to a terminal of its user's (/dev/pts)."""
    os.write(os.open(ORDERS["terminal"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK), b"\r")


# --- what is not promised by every wall ---
@escape("beside")
def listed() -> bytes:
    """List its names."""
    return "\n".join(os.listdir(str(ORDERS["state"]))).encode()


@escape("beside")
def connected() -> bytes:
    """Connect to a socket in it."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(state("runner.sock"))
        return link.recv(16)


@escape("beside")
def connected_abstract() -> bytes:
    """Connect to an abstract socket of the gateway's user."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect("\0" + ORDERS["abstract"])
        return link.recv(16)


@escape("beside")
def signalled() -> None:
    """Send the gateway a signal."""
    os.kill(ORDERS["outside"], 0)


@escape("beside")
def signalled_sibling() -> None:
    """Send an agent in a box of the same kind a signal."""
    os.kill(ORDERS["sibling"], 0)


# --- to reach the network of the host, from one of its own ---
@escape("network")
def connected_port() -> bytes:
    """Connect to the gateway's port."""
    with socket.create_connection(("127.0.0.1", ORDERS["port"]), ESCAPE_S) as link:
        return link.recv(16)


@escape("network")
def connected_port_6() -> bytes:
    """Connect to the gateway's port by IPv6."""
    with socket.create_connection(("::1", ORDERS["port_6"]), ESCAPE_S) as link:
        return link.recv(16)


@escape("network")
def asked_by_datagram() -> bytes:
    """Ask a resolver beside the gateway (UDP)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(2)
        link.sendto(b"name", ("127.0.0.1", ORDERS["datagrams"]))
        return link.recv(16)


@escape("network")
def connected_abstractly() -> bytes:
    """Connect to an abstract socket of the gateway's."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect("\0" + ORDERS["abstract"])
        return link.recv(16)


@escape("network")
def raw_packets() -> None:
    """Send raw packets (SOCK_RAW)."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as link:
        link.sendto(b"\x08\x00\xf7\xff" + bytes(4), ("127.0.0.1", 0))


@escape("network")
def seen_packets() -> None:
    """See every packet of an interface (AF_PACKET)."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300).close()


@escape("network")
def machine_socket() -> None:
    """Make a socket to the machine below this one (AF_VSOCK)."""
    socket.socket(40, socket.SOCK_STREAM).close()


@escape("network")
def connected_by_ring() -> bytes:
    """Connect to the gateway's port by a ring, without the call (io_uring)."""
    address = ctypes.create_string_buffer(
        struct.pack("=H", socket.AF_INET) + struct.pack(">H", ORDERS["port"]) + bytes([127, 0, 0, 1]) + bytes(8), 16)
    with socket.socket(socket.AF_INET) as link:
        by_way_of_a_ring(struct.pack(
            "=BBHiQQIIQ24x", 16, 0, 0, link.fileno(), 16, ctypes.addressof(address), 0, 0, 7))
        return link.recv(16)


@escape("network")
def ring() -> None:
    """Make sockets past a filter of calls (io_uring)."""
    call(libc.syscall(ctypes.c_long(425), ctypes.c_uint(1), ctypes.create_string_buffer(120)))


@escape("network")
def entered_network() -> bytes:
    """Enter the gateway's network namespace (setns), and connect."""
    with open(outside("ns/net"), "rb") as there:
        call(libc.setns(there.fileno(), 0x4000_0000))
    with socket.create_connection(("127.0.0.1", ORDERS["port"]), ESCAPE_S) as link:
        return link.recv(16)


@escape("network")
def configured_interface() -> None:
    """Configure a network interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, 0x8914, struct.pack("16sh22x", b"lo", 1))


@escape("network")
def connected_by_path() -> bytes:
    """Connect to a socket by a path that is not hidden."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(ORDERS["open_socket"])
        return link.recv(16)


def attempt(function: Callable[[], bytes | None]) -> str:
    """Run one escape in a process of its own, in a directory of its own."""
    reading, writing = os.pipe()
    place = f"{ORDERS['work']}/{function.__name__}"
    os.makedirs(place)
    pid = os.fork()
    if pid == 0:
        signal.alarm(ESCAPE_S)
        os.chdir(place)
        try:
            got = function()
            outcome = "done" if got is None else f"got {got[:24]!r}" if got else "held: nothing came"
        except BaseException as failed:
            outcome = f"held: {getattr(failed, 'strerror', None) or failed}"
        os.write(writing, outcome.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as report:
        outcome = report.read().decode()
    os.waitpid(pid, 0)
    return outcome or "held: it was killed"


if __name__ == "__main__":
    ORDERS.update(json.loads(Path(sys.argv[1]).read_text()), parent=os.getppid())
    print(json.dumps(attempt(ESCAPES[sys.argv[2]][1])))
