"""The console's files: the pages that a browser loads from the gateway itself, without a credential (J-9, J-16)."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request

from interlock.gateway.rest.answers import HttpResponse, problem_answer, raw_answer
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.gateway.rest.routes import media_ranges
from interlock.protocol.problems import Problem

ASSETS = Path(__file__).parents[2] / "console_assets"
"""The console's directory in the built package; absent if the package was built without it."""
BASE = "/console/"
INDEX = "index.html"
HASHED = "assets/"
"""Below this a file's name contains a hash of its content, so a browser never needs to revalidate it."""
MAX_FILES = 500
MAX_FILE_BYTES = 4_000_000
"""Files beyond these limits are not served: the directory does not hold a build of the console."""
GZIP_FROM_BYTES = 1_000
"""Smaller files are sent as they are."""

CONTENT_SECURITY_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:", "connect-src 'self'",
    "manifest-src 'self'", "worker-src 'self'", "font-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
    "form-action 'none'", "require-trusted-types-for 'script'",
    "trusted-types interlock interlock-markup svelte-trusted-html",
))
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""Sent with every response below BASE, and with redirects to it."""

MEDIA: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8", ".json": "application/json", ".png": "image/png",
    ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".webmanifest": "application/manifest+json",
    ".webp": "image/webp", ".woff2": "font/woff2",
}
BINARY = "application/octet-stream"
_COMPRESSED = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"})
_APPROVAL = re.compile(r"/a/([A-Za-z0-9_]{1,64})")

ABSENT_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Interlock</title>
</head><body><h1>This gateway has no console</h1>
<p>The package was built without it. Install Interlock from a release, or build it from a checkout with npm reachable:
<code>CONSOLE=1 pip install .</code></p>
<p>The API and the command line work as ever: try <code>interlock status</code>.</p></body></html>
"""


class ConsoleFile(NamedTuple):
    """A file as it is sent."""

    body: bytes
    compressed: bytes | None
    media: str
    etag: str


class ConsolePages:
    """Serves the files of one directory. They are read at the first request, and again after `index.html` changes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pages: dict[str, ConsoleFile] = {}
        self._stamp: tuple[int, int] | None = None

    @staticmethod
    def serves(request: Request) -> bool:
        """Return whether a request is for the console, or is redirected to it."""
        path: str = request.scope["path"]
        if path == "/":
            return "text/html" in media_ranges(headers_of(request.scope).get(b"accept", ()))
        return path == "/console" or path.startswith((BASE, "/a/"))

    def answer(self, request: Request) -> HttpResponse:
        """Return a file, the page of an application path, or a redirect. Raises Problem MethodNotAllowed."""
        path: str = request.scope["path"]
        if request.method not in ("GET", "HEAD"):
            raise Problem("MethodNotAllowed", f"{path} does not take {request.method}.", headers={"Allow": "GET, HEAD"})
        if path == "/console":
            return _redirect(BASE, 308)
        if path == "/":
            return _redirect(BASE, 303)
        if (approval := _APPROVAL.fullmatch(path)) is not None:
            return _redirect(f"{BASE}a/{approval[1]}", 303)
        self._read()
        if INDEX not in self._pages:
            return raw_answer(ABSENT_PAGE.encode(), 404, SECURITY_HEADERS, MEDIA[".html"].encode())
        name = path.removeprefix(BASE)
        page = self._pages.get(name)
        if page is not None:
            return _sent(page, request, hashed=name.startswith(HASHED))
        if path.startswith(BASE) and "." not in name.rpartition("/")[2]:
            return _sent(self._pages[INDEX], request, hashed=False)
        return _absent(path)

    def _read(self) -> None:
        """Read the directory if it has changed: names are looked up in the result, never on the disk."""
        try:
            found = (self._directory / INDEX).stat()
        except OSError:
            self._pages, self._stamp = {}, None
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp != self._stamp:
            self._pages, self._stamp = _pages(self._directory), stamp


def _pages(directory: Path) -> dict[str, ConsoleFile]:
    pages: dict[str, ConsoleFile] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        hidden = any(part.startswith(".") for part in name.split("/"))
        if hidden or path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            continue
        if len(pages) >= MAX_FILES:
            break
        body = path.read_bytes()
        small = path.suffix not in _COMPRESSED or len(body) < GZIP_FROM_BYTES
        pages[name] = ConsoleFile(body, None if small else gzip.compress(body, mtime=0), MEDIA.get(path.suffix, BINARY),
                                  f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return pages


def _sent(page: ConsoleFile, request: Request, *, hashed: bool) -> HttpResponse:
    headers = headers_of(request.scope)
    sent = {**SECURITY_HEADERS, "ETag": page.etag, "Vary": "Accept-Encoding",
            "Cache-Control": "public, max-age=31536000, immutable" if hashed else "no-cache"}
    known = {one.strip().removeprefix("W/") for one in ",".join(headers.get(b"if-none-match", ())).split(",")}
    if page.etag in known:
        return raw_answer(b"", 304, sent, page.media.encode())
    body = page.body
    if page.compressed is not None and headers.get(b"accept-encoding") and "gzip" in media_ranges(
            headers[b"accept-encoding"]):
        body, sent["Content-Encoding"] = page.compressed, "gzip"
    return raw_answer(body, 200, sent, page.media.encode())


def _redirect(to: str, status: int) -> HttpResponse:
    return raw_answer(b"", status, {**SECURITY_HEADERS, "Location": to})


def _absent(path: str) -> HttpResponse:
    answer = problem_answer(Problem("NotFound", f"The console has no file {path}."), path)
    headers = [*answer.headers, *((name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items())]
    return HttpResponse(answer.body, answer.status, headers)
