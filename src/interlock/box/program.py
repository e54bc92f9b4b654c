"""Read what a process is about to execute, from its memory while the kernel holds it (H-16). Runs in the supervisor."""

# Imported by the supervisor, which must start quickly: no pathlib.
# ruff: noqa: PTH115, PTH116, PTH123
from __future__ import annotations

import ctypes
import errno
import os
import posixpath
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from interlock.box import kernel
from interlock.box.memory import ProcessMemory, Unreadable, text_at, vector_at

MAX_PATH_BYTES = 4096
MAX_INTERPRETERS = 5
"""Nesting of scripts that run scripts, as the kernel counts it."""
MAX_SHEBANG_BYTES = 256
"""Length of a script's first line that the kernel reads."""
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_NOFOLLOW = 0x100
SYS_OPENAT2 = 437
RESOLVE_IN_ROOT = 0x10
SYSTEM_PATH = (b"/usr/local/sbin", b"/usr/local/bin", b"/usr/sbin", b"/usr/bin", b"/sbin", b"/bin")
REACHING = frozenset((
    b"BASH_ENV", b"CDPATH", b"COMPILER_PATH", b"EDITOR", b"ENV", b"GCC_EXEC_PREFIX", b"GLIBC_TUNABLES", b"IFS",
    b"JAVA_TOOL_OPTIONS", b"JDK_JAVA_OPTIONS", b"MAKEFILES", b"MAKEFLAGS", b"NODE_OPTIONS", b"NODE_PATH", b"PAGER",
    b"PATH", b"PERL5DB", b"PERL5LIB", b"PERL5OPT", b"PS4", b"RUBYLIB", b"RUBYOPT", b"RUSTC_WRAPPER", b"SHELLOPTS",
    b"SSH_ASKPASS", b"VISUAL", b"_JAVA_OPTIONS",
))
REACHING_BEGIN = (b"BASH_FUNC_", b"GIT_", b"LD_", b"PYTHON")
"""Variables that make another program or library run than the command line shows."""
HARMLESS = frozenset((b"", b"0", b"1", b"cat", b"true"))
"""Values of such a variable that run no other program."""


class Image(NamedTuple):
    """A file that is executed. `shebang` are the words that the kernel puts before a script's path, the interpreter
    first, empty for other files; `interpreter` is the interpreter's file."""

    device: int
    inode: int
    shebang: tuple[bytes, ...] = ()
    interpreter: tuple[int, int] | None = None


class Program(NamedTuple):
    """One held start. `name` is the program's bare name if the agent's own PATH finds it by that, else its path without
    symbolic links; `environment` are the variables that change what the command line does and differ from those that
    the agent was started with. With `own_view` the process has mounts or a root of its own: each path may then be
    another file than elsewhere."""

    path: bytes
    argv: tuple[bytes, ...]
    directory: bytes
    name: bytes
    environment: tuple[bytes, ...]
    image: Image
    own_view: bool = False


class StartedProgram(NamedTuple):
    """The counted part of a program below an allowed one. `name` is the last part of the path that was found."""

    path: bytes
    argv: tuple[bytes, ...]
    directory: bytes
    name: bytes


T = TypeVar("T")
View = tuple[int, int, int]
"""Mount namespace, and device and inode of the root: with the same three a path is the same file."""


class RunningProgram(NamedTuple):
    """What a process runs: device and inode of the file, the command line with a NUL after each word, the directory,
    and the variables that change what the command line does."""

    file: tuple[int, int]
    line: bytes
    directory: bytes
    environment: tuple[bytes, ...]


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def reaching(environment: tuple[bytes, ...], base: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    """Return the variables that make another program or library run than the command line shows, if they differ from
    `base`. A PATH of directories that are in `base` or the system's is not included. Pure."""
    found: list[bytes] = []
    for one in environment:
        name, _, value = one.partition(b"=")
        if not (name in REACHING or name.startswith(REACHING_BEGIN)) or base.get(name) == value or value in HARMLESS:
            continue
        usual = {*SYSTEM_PATH, *base.get(b"PATH", b"").split(b":")}
        if name == b"PATH" and all(part in usual for part in value.split(b":")):
            continue
        found.append(one)
    return tuple(found)


def expected(image: Image, path: bytes, argv: tuple[bytes, ...]) -> bytes:
    """Return the content of /proc/PID/cmdline after this has been executed. Pure."""
    words = (*image.shebang, path, *argv[1:]) if image.shebang else (argv or (b"",))
    return b"".join(word + b"\0" for word in words)


def shebang(head: bytes) -> tuple[bytes, ...]:
    """Return a script's interpreter and its one argument, parsed from its first line as in the kernel. Pure."""
    if not head.startswith(b"#!"):
        return ()
    line = head[2:].split(b"\n", 1)[0].strip(b" \t")
    interpreter, _, argument = line.replace(b"\t", b" ").partition(b" ")
    argument = line[len(interpreter):].strip(b" \t")
    return (interpreter, argument) if argument else (interpreter,) if interpreter else ()


def by_env(words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the words that `#!/usr/bin/env …` executes, empty for another interpreter. Pure."""
    if len(words) != 2 or posixpath.basename(words[0]) != b"env":
        return ()
    rest = words[1].split()
    if rest and rest[0] in (b"-S", b"--split-string"):
        rest = rest[1:]
    return tuple(rest) if rest and not rest[0].startswith(b"-") and b"=" not in rest[0] else ()


class ProgramReader:
    """Reads what one thread is about to execute; `number` and `arguments` are those of its system call."""

    def __init__(self, tid: int, base: Mapping[bytes, bytes], view: View | None = None) -> None:
        """`base` is the environment that the agent was started with, `view` the files as its own process saw them."""
        self.tid = tid
        self._base = base
        self._view = view
        self._root = -1

    def read(self, at: bool, arguments: tuple[int, ...]) -> Program:
        """Read the call; `at` means execveat. Raises Unreadable, and OSError if the process is gone."""

        def whole(memory: ProcessMemory, file: int, found: bytes, started: StartedProgram) -> Program:
            image = self._image(file)
            own_view = self._view is not None and view_of(self.tid) != self._view
            name = os.readlink(f"/proc/self/fd/{file}".encode()) if own_view else self._name(found, file, image)
            variables = reaching(vector_at(memory, arguments[3 if at else 2]), self._base)
            return Program(started.path, started.argv, started.directory, name, variables, image, own_view)

        return self._opened(at, arguments, whole)

    def started(self, at: bool, arguments: tuple[int, ...]) -> StartedProgram:
        """Read only what counting needs, for a start below an allowed program. Raises as `read`."""
        return self._opened(at, arguments, lambda _memory, _file, _found, started: started)

    def _opened(self, at: bool, arguments: tuple[int, ...],
                result: Callable[[ProcessMemory, int, bytes, StartedProgram], T]) -> T:
        dirfd, address, argv_at, flags = (*arguments[:3], arguments[4]) if at else (-100, *arguments[:2], 0)
        memory = ProcessMemory(self.tid)
        try:
            self._root = os.open(f"/proc/{self.tid}/root", os.O_PATH | os.O_CLOEXEC)
            path = text_at(memory, address, MAX_PATH_BYTES)
            directory = os.readlink(f"/proc/{self.tid}/cwd".encode())
            file, found = self._open(path, directory, dirfd, flags)
            try:
                argv = vector_at(memory, argv_at)
                if not path.startswith(b"/") and _signed(dirfd) != kernel.AT_FDCWD:  # The kernel's own name for it.
                    path = b"/dev/fd/%d" % _signed(dirfd) + (b"/" + path if path else b"")
                return result(memory, file, found,
                              StartedProgram(path, argv, directory, posixpath.basename(found)))
            finally:
                os.close(file)
        finally:
            memory.close()
            if self._root >= 0:
                os.close(self._root)

    def _open(self, path: bytes, directory: bytes, dirfd: int, flags: int) -> tuple[int, bytes]:
        """Open the file that the kernel would execute, and return it with its path. Raises Unreadable with the kernel's
        errno for a file that it would reject: a search along PATH causes no question."""
        dirfd = _signed(dirfd)
        try:
            if not path:
                if not flags & AT_EMPTY_PATH:
                    raise Unreadable(errno.ENOENT)
                link = f"/proc/{self.tid}/fd/{dirfd}" if dirfd >= 0 else f"/proc/{self.tid}/cwd"
                file, found = os.open(link, os.O_PATH | os.O_CLOEXEC), os.readlink(link.encode())
            else:
                if not path.startswith(b"/") and dirfd != kernel.AT_FDCWD:
                    directory = os.readlink(f"/proc/{self.tid}/fd/{dirfd}".encode())
                found = path if path.startswith(b"/") else directory.rstrip(b"/") + b"/" + path
                file = self._open_in_root(found, flags & AT_SYMLINK_NOFOLLOW)
        except OSError as failed:
            raise Unreadable(failed.errno or errno.EACCES) from None
        mode = os.fstat(file).st_mode
        if mode & 0o170000 != 0o100000 or not os.access(f"/proc/self/fd/{file}", os.X_OK, effective_ids=True):
            os.close(file)
            raise Unreadable(errno.EACCES)
        return file, found

    def _open_in_root(self, path: bytes, no_follow: int = 0) -> int:
        """Open a path as the process itself would, following symbolic links below its own root. Raises OSError."""
        for own in (b"/proc/self/", b"/proc/thread-self/"):
            if path.startswith(own):
                path = b"/proc/%d/" % self.tid + path[len(own):]
        how = _How(os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if no_follow else 0), 0, RESOLVE_IN_ROOT)
        try:
            return kernel.syscall(SYS_OPENAT2, ctypes.c_int(self._root), ctypes.c_char_p(path), ctypes.byref(how),
                                  ctypes.c_size_t(ctypes.sizeof(how)))
        except OSError as failed:
            if failed.errno == errno.EXDEV and path.startswith(b"/proc/"):
                return os.open(path, os.O_PATH | os.O_CLOEXEC)  # The kernel's own link to an open file.
            raise

    def _image(self, file: int) -> Image:
        found = os.fstat(file)
        words: tuple[bytes, ...] = ()
        more = shebang(_head(file))
        interpreter: tuple[int, int] | None = None
        for _ in range(MAX_INTERPRETERS):
            if not more:
                break
            words = more + words  # An interpreter may be a script itself.
            interpreter, more = self._interpreter(words[0])
        return Image(found.st_dev, found.st_ino, words, interpreter)

    def _interpreter(self, path: bytes) -> tuple[tuple[int, int] | None, tuple[bytes, ...]]:
        """Return an interpreter's file, and its own interpreter's words if it is a script."""
        try:
            file = self._open_in_root(path)
        except OSError:
            return None, ()
        try:
            found = os.fstat(file)
            return (found.st_dev, found.st_ino), shebang(_head(file))
        finally:
            os.close(file)

    def _name(self, found: bytes, opened: int, image: Image) -> bytes:
        real = os.readlink(f"/proc/self/fd/{opened}".encode())
        base = posixpath.basename(found)
        for directory in self._base.get(b"PATH", b"").split(b":"):
            if not directory.startswith(b"/"):
                continue
            try:
                file = self._open_in_root(directory + b"/" + base)
            except OSError:
                continue
            try:
                first = os.fstat(file)
            finally:
                os.close(file)
            return base if (first.st_dev, first.st_ino) == (image.device, image.inode) else real
        return real


def view_of(tid: int) -> View:
    """Return which files a thread sees: its mount namespace and its root. Raises OSError."""
    namespace, root = os.stat(f"/proc/{tid}/ns/mnt"), os.stat(f"/proc/{tid}/root")
    return namespace.st_ino, root.st_dev, root.st_ino


def _signed(number: int) -> int:
    return struct.unpack("=i", struct.pack("=I", number & 0xFFFF_FFFF))[0]


def _head(file: int) -> bytes:
    try:
        opened = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""  # It can be executed but not read: so it is not a script.
    try:
        return os.pread(opened, MAX_SHEBANG_BYTES, 0)
    finally:
        os.close(opened)


def running(pid: int, base: Mapping[bytes, bytes]) -> RunningProgram:
    """Return what a process runs now, beside the variables in `base`. Raises OSError if it is gone."""
    found = os.stat(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/environ", "rb", buffering=0) as variables:
        environment = tuple(variables.readall().split(b"\0")[:-1])
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as line:
        return RunningProgram((found.st_dev, found.st_ino), line.readall(), os.readlink(f"/proc/{pid}/cwd".encode()),
                              reaching(environment, base))


def is_as_allowed(program: Program, ran: RunningProgram) -> bool:
    """Return whether the running program is the allowed one. Pure."""
    image = program.image
    file = image.interpreter if image.shebang else (image.device, image.inode)
    return ran == RunningProgram(file or (0, 0), expected(image, program.path, program.argv), program.directory,
                                 program.environment)
