"""Targets of the hostile program of `proof box`: processes of the same user, outside of its walls.

`victim.py gateway STATE ABSTRACT`: holds the key open, in its environment and in its memory, and listens; prints
one JSON line. `victim.py supervisor CODE FIELDS PROGRAM…`: raises walls in a child, as the supervisor does, and runs
the program. Standard library alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading


def gateway(state: str, abstract: str) -> None:
    """Run like a gateway until standard input ends."""
    os.chdir(state)
    key = os.open("owner.key", os.O_RDONLY)
    held = ctypes.create_string_buffer(b"the-key-in-memory")
    ports: dict[str, int] = {}
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for listener, name in zip(listeners, ("runner.sock", "\0" + abstract, "../work.sock"), strict=True):
        listener.bind(name)
    for label, family, address in (("port", socket.AF_INET, "127.0.0.1"), ("port_6", socket.AF_INET6, "::1")):
        try:
            listeners.append(socket.socket(family))
            listeners[-1].bind((address, 0))
            ports[label] = listeners[-1].getsockname()[1]
        except OSError:
            listeners.pop()
            ports[label] = 1  # Without IPv6 nothing is reached by it.
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    ports["datagrams"] = datagrams.getsockname()[1]
    threading.Thread(target=resolve, args=(datagrams,), daemon=True).start()
    person, terminal = os.openpty()
    os.write(person, b"what a person types\n" * 20)
    for listener in listeners:
        listener.listen()
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
    passing = socket.socket(socket.AF_UNIX)
    passing.bind("../pass.sock")
    passing.listen()
    threading.Thread(target=hand_out, args=(passing, key), daemon=True).start()
    print(json.dumps({"outside": os.getpid(), "key_fd": key, "address": ctypes.addressof(held),
                      "terminal": os.ttyname(terminal), **ports}), flush=True)
    sys.stdin.read()


def resolve(datagrams: socket.socket) -> None:
    while True:
        _, sender = datagrams.recvfrom(64)
        datagrams.sendto(b"an address", sender)


def hand_out(listener: socket.socket, descriptor: int) -> None:
    while True:
        link, _ = listener.accept()
        socket.send_fds(link, [b"it"], [descriptor])
        link.close()


def answer(listener: socket.socket) -> None:
    while True:
        link, _ = listener.accept()
        link.sendall(b"what the runner says")
        link.close()


def supervisor(code: str, fields: str, program: list[str]) -> None:
    """Run a program behind walls, and end as it does."""
    sys.path.append(code)
    from interlock.box.wall_setup import raise_walls

    pid = os.fork()
    if pid == 0:
        try:
            raise_walls([os.fsencode(field) for field in json.loads(fields)])
            os.execv(program[0], program)
        except OSError as failed:
            os.write(2, str(failed).encode())
        finally:
            os._exit(126)
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    if sys.argv[1] == "gateway":
        gateway(*sys.argv[2:])
    else:
        supervisor(sys.argv[2], sys.argv[3], sys.argv[4:])
