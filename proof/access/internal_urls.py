"""S8: URLs that lead inside, by address, by name, by rebinding and by redirect: all refused before a request is
sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from interlock.backends.outgoing.http import HttpOutgoing, Resolve
from interlock.ports.outbound_http import Unreached, UrlRefused
from proof.access.oidc_issuer import Issuer

INSIDE = (
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "169.254.169.254", "169.254.170.2", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2001:db8::1",
)
"""Addresses that no one outside has: loopback, private, shared, link-local, metadata, documentation, multicast,
reserved, and IPv4 hidden in IPv6."""

MISWRITTEN = (
    "http://example.org/", "ftp://example.org/", "file:///etc/passwd", "gopher://example.org/", "//example.org/",
    "https://user:word@example.org/", "https://example.org@127.0.0.1/", "https://example.org#@127.0.0.1/",
    "https://example.org\\@127.0.0.1/", "https://exa mple.org/", "https://example.org/\r\nHost: inside", "https:///",
    "https://", "https://example.org:0/", "https://example.org:99999/", "https://[fe80::1%25eth0]/", "https://[::1/",
    "https://ex\u0430mple.org/", "https://example.org/" + "a" * 3_000, "javascript:alert(1)", "",
)
SHORTENED = ("127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "localhost", "127.0.0.1.")
"""Ways to write 127.0.0.1 that the system's resolver understands; others are unknown names."""


def urls() -> Iterator[str]:
    """Every URL that must be refused by itself."""
    for address in INSIDE:
        host = f"[{address}]" if ":" in address else address
        yield f"https://{host}/keys"
        yield f"http://{host}/latest/meta-data/"
    yield from MISWRITTEN
    for host in SHORTENED:
        yield f"https://{host}/"


async def trial() -> tuple[int, list[str]]:
    """Try each: (how many, what was not refused)."""
    wrong: list[str] = []
    attempted = 0

    async def refused(outgoing: HttpOutgoing, url: str, what: str) -> None:
        nonlocal attempted
        attempted += 1
        try:
            answer = await outgoing.send("GET", url, headers={}, max_bytes=1_000, timeout_s=5)
        except UrlRefused:
            return
        except Unreached as error:
            if "not known" in str(error) and what in SHORTENED:
                return
            wrong.append(f"{what}: asked, {error}")
        else:
            wrong.append(f"{what}: answered {answer.status}")

    for url in urls():
        await refused(HttpOutgoing(), url, url.split("/")[2] if url.count("/") > 2 else url)
    for address in INSIDE:
        for mixed in ([address], ["93.184.216.34", address], [address, "93.184.216.34"]):
            outgoing = HttpOutgoing(resolve=_always(mixed))
            await refused(outgoing, "https://rebound.example/", f"a name at {mixed}")
    await refused(HttpOutgoing(resolve=_always([])), "https://nowhere.example/", "a name without an address")
    async with Issuer() as there:
        # Allowed by the config, so requested; its redirect is an answer, and its target is not requested.
        outgoing = HttpOutgoing(["127.0.0.1/32"])
        there.answers["/moved"] = (302, b"")
        answer = await outgoing.send("GET", there.url + "/moved", headers={}, max_bytes=1_000, timeout_s=5)
        attempted += 1
        if answer.status != 302 or there.asked != {"/moved": 1}:
            wrong.append(f"a redirect: {answer.status}, asked {there.asked}")
        # A name that is looked up again would be asked at its second address.
        wanted = iter([["127.0.0.1"], ["169.254.169.254"]])

        async def rebinding(_host: str, _port: int) -> list[str]:
            return next(wanted)

        pinned = HttpOutgoing(["127.0.0.1/32"], resolve=rebinding)
        port = there.url.rpartition(":")[2]
        answer = await pinned.send("GET", f"http://there.example:{port}/keys", headers={}, max_bytes=100_000,
                                   timeout_s=5)
        attempted += 1
        if answer.status != 200 or next(wanted) != ["169.254.169.254"]:
            wrong.append("a name was looked up twice")
        await refused(HttpOutgoing(["10.0.0.0/8"]), there.url + "/keys", "a network that is not the allowed one")
    return attempted, wrong


def _always(addresses: list[str]) -> Resolve:
    async def resolve(_host: str, _port: int) -> list[str]:
        return addresses

    return resolve


def run(_seed: int, _rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    attempted, wrong = asyncio.run(trial())
    print(f"{attempted} URLs that lead inside, {len(wrong)} not refused")
    print("\n".join(wrong))
    return not wrong
