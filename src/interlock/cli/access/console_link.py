"""The link that logs a browser in once, as text and as a QR code (J-10)."""

from __future__ import annotations

import io
from urllib.parse import urlsplit, urlunsplit

from interlock.protocol.api.access import MAKE_BROWSER_CODE
from interlock.sdk.place import LOOPBACK

CODES = MAKE_BROWSER_CODE.at()
CONSOLE = "/console/"
QR_BORDER = 2


def link_for(url: str, code: str) -> str:
    """Write the link that logs in. The code is in the fragment, which no server sees; a gateway on this machine is
    named `localhost`, for which alone browsers accept passkeys."""
    parts = urlsplit(url)
    place = parts.netloc if parts.hostname not in LOOPBACK else f"localhost:{parts.port}" if parts.port else "localhost"
    return urlunsplit((parts.scheme, place, CONSOLE, "", code))


def qr_code(text: str, encoding: str | None) -> str:
    """Draw a text as a QR code for a terminal; "" if its encoding has no blocks."""
    import segno  # Only a person at a terminal needs it.

    drawn = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(drawn, compact=True, border=QR_BORDER)
    try:
        drawn.getvalue().encode(encoding or "ascii")
    except UnicodeEncodeError:
        return ""
    return drawn.getvalue()
