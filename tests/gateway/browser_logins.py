"""Steps of a browser that logs in to a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from gateway.rest.test_routes import refused
from small_gateway.running import Gateway

SAME = {"Sec-Fetch-Site": "same-origin"}
LOGIN = "/v1/browser-sessions"


async def coded(gateway: Gateway, **body: Any) -> str:
    answer = await gateway.post("/v1/browser-codes", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["code"]


@asynccontextmanager
async def browser(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    own = {"Origin": gateway.base, **SAME}
    async with httpx2.AsyncClient(base_url=gateway.base, headers=own, timeout=20) as page:
        yield page


async def logged_in(page: httpx2.AsyncClient, **credential: str) -> dict[str, Any]:
    """Log in, and send the half from then on, as the page does."""
    answer = await page.post(LOGIN, json=credential)
    assert answer.status_code == 201, answer.text
    page.headers["Interlock-Browser"] = answer.json()["half"]
    return answer.json()


async def works(page: httpx2.AsyncClient, **headers: str) -> bool:
    answer = await page.get("/v1/whoami", headers=headers)
    if answer.status_code == 200:
        return True
    refused(answer, "Unauthorized")
    return False
