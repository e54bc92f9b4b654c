"""A3: our canonical JSON, Merkle trees and notes against implementations and specifications of others."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Sequence
from typing import Any, Protocol, cast

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pymerkle import InmemoryTree

from interlock.command.audit.audit_tree import (
    Frontier,
    SubtreeHashes,
    answer,
    consistency,
    continues,
    includes,
    inclusion,
    root_of,
    subtree,
)
from interlock.command.audit.note import cosign, cosigned_at, origin_of, sign_checkpoint
from interlock.command.canonical import canonical

ROUNDS = 300
VECTORS: tuple[tuple[dict[str, Any], bytes], ...] = (
    # RFC 8785, 3.2.3 (sorting, ASCII names only here) and 3.2.2.2 (strings).
    ({"b": 1, "a": 2, "1": "One", "\r": "CR"}, b'{"\\r":"CR","1":"One","a":2,"b":1}'),
    ({"literals": [True, False]}, b'{"literals":[true,false]}'),
    ({"string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/"},
     '{"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'.encode()),
    ({"numbers": [0, -1, 2**53 - 1, 1 - 2**53]}, b'{"numbers":[0,-1,9007199254740991,-9007199254740991]}'),
)


class TheirProof(Protocol):
    """A proof of pymerkle's, which has no types."""

    path: Sequence[bytes]


class TheirTree(Protocol):
    """The part of a tree of pymerkle's that is compared; its leaves are numbered from 1."""

    def append_entry(self, data: bytes, /) -> object: ...

    def get_root(self, size: int | None = None) -> bytes: ...

    def prove_inclusion(self, index: int, /) -> TheirProof: ...


def vectors() -> int:
    """How many of the vectors of RFC 8785 that lie within our schema are written otherwise."""
    return sum(canonical(value) != wanted or rfc8785.dumps(value) != wanted for value, wanted in VECTORS)


def random_json(dice: random.Random, depth: int = 0) -> Any:
    """Make a value within our schema, with every kind of character."""
    match dice.randrange(6 if depth < 4 else 3):
        case 0:
            return "".join(chr(dice.choice((dice.randrange(0x20), dice.randrange(0x80), dice.randrange(0xD800),
                                            dice.randrange(0xE000, 0x110000)))) for _ in range(dice.randrange(12)))
        case 1:
            return dice.randrange(-(2**53) + 1, 2**53)
        case 2:
            return dice.random() < 0.5
        case 3:
            return [random_json(dice, depth + 1) for _ in range(dice.randrange(4))]
        case _:
            return {"".join(chr(dice.randrange(0x80)) for _ in range(dice.randrange(6))): random_json(dice, depth + 1)
                    for _ in range(dice.randrange(4))}


def trees(dice: random.Random, rounds: int) -> int:
    """How many roots, proofs of inclusion or of consistency pymerkle has otherwise, or ours do not hold."""
    wrong = 0
    theirs = cast("TheirTree", InmemoryTree(algorithm="sha256"))
    frontier, leaves = Frontier(), list[bytes]()
    for size in range(1, rounds + 1):
        body = dice.randbytes(dice.randrange(100))
        theirs.append_entry(body)
        leaves.append(hashlib.sha256(b"\0" + body).digest())
        frontier.grow(leaves[-1])
        root = frontier.root()

        def read(span: SubtreeHashes) -> list[bytes]:
            return [root_of(leaves[i << span.level : (i + 1) << span.level]) for i in range(span.start, span.end)]

        index, first = dice.randrange(size), dice.randrange(1, size + 1)
        path, proof = answer(inclusion(index, size), read), answer(consistency(first, size), read)
        early = answer(subtree(0, first), read)
        wrong += root != theirs.get_root() or root != answer(subtree(0, size), read) or early != theirs.get_root(first)
        wrong += not includes(leaves[index], index, size, path, root)
        wrong += [*path] != [*theirs.prove_inclusion(index + 1).path][1:]
        wrong += not continues(first, early, size, root, proof)
        wrong += size > 1 and includes(leaves[index], index, size, path, early if first < size else bytes(32))
        wrong += first < size and continues(first, hashlib.sha256(early).digest(), size, root, proof)
    return wrong


def notes(dice: random.Random, rounds: int) -> int:
    """How many of our notes a reader written from the C2SP texts alone does not verify."""
    wrong = 0
    for _ in range(rounds):
        log, witness = (Ed25519PrivateKey.from_private_bytes(dice.randbytes(32)) for _ in range(2))
        size, root, at_s = dice.randrange(2**40), dice.randbytes(32), dice.randrange(2**33)
        ours = cosign(witness, "witness.example/w", sign_checkpoint(log, origin_of("gw 1", "a+b/c"), size, root), at_s)
        try:
            parsed = read_note(ours.note.encode(), log.public_key(), "witness.example/w", witness.public_key())
        except (ValueError, AssertionError):
            wrong += 1
            continue
        wrong += parsed != (ours.origin, size, root, at_s)
        wrong += cosigned_at(ours, "witness.example/w", witness.public_key()) != at_s
    return wrong


def read_note(raw: bytes, log: Ed25519PublicKey, name: str, witness: Ed25519PublicKey) -> tuple[str, int, bytes, int]:
    """Read a cosigned checkpoint by signed-note, tlog-checkpoint and tlog-cosignature. Raises the fault."""
    gap = raw.rindex(b"\n\n")
    text, signatures = raw[: gap + 1], raw[gap + 2 :].split(b"\n")
    assert signatures.pop() == b""
    origin, size, root = text.decode().split("\n")[:3]
    assert not set(origin) & {" ", "+"}
    at_s = -1
    verified: set[bytes] = set()
    for line in signatures:
        dash, key_name, blob = line.split(b" ")
        assert dash == b"\xe2\x80\x94"
        signed = base64.b64decode(blob, validate=True)
        if signed[:4] == hashlib.sha256(key_name + b"\n\x01" + log.public_bytes_raw()).digest()[:4]:
            assert key_name == origin.encode()
            log.verify(signed[4:], text)
            verified.add(b"log")
        if signed[:4] == hashlib.sha256(key_name + b"\n\x04" + witness.public_bytes_raw()).digest()[:4]:
            assert key_name == name.encode()
            at_s = int.from_bytes(signed[4:12], "big")
            witness.verify(signed[12:], b"cosignature/v1\ntime %d\n" % at_s + text)
            verified.add(b"witness")
    assert verified == {b"log", b"witness"}
    return origin, int(size), base64.b64decode(root), at_s


def interop(seed: int, rounds: int) -> dict[str, int]:
    """Count what differs: {vectors, json, trees, notes}, each 0 if all agree."""
    dice = random.Random(seed)
    values = [{"value": random_json(dice)} for _ in range(rounds)]
    return {"rounds": rounds, "vectors": vectors(),
            "json": sum(canonical(value) != rfc8785.dumps(value) for value in values),
            "trees": trees(dice, rounds), "notes": notes(dice, rounds)}


def run(seed: int, rounds: int | None) -> bool:
    """Run it and print; `rounds` is the number of values, tree sizes and notes."""
    counted = interop(seed, rounds or ROUNDS)
    print(" ", counted, flush=True)
    return not any(count for name, count in counted.items() if name != "rounds")
