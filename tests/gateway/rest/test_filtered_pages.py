"""Filtered pages (S-1, K-3): every row once, at any page size, with a bounded number of rows read per request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.gateway.rest.filtered_pages import SCAN_MAX, SCAN_PAGE, contains, scan

pytestmark = [pytest.mark.anyio, pytest.mark.req("S-1", "K-3")]


class Rows:
    """The numbers from 1 on, and how many were read."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.read_so_far = 0

    async def read(self, after: int | None, limit: int) -> list[int]:
        found = list(range((after or 0) + 1, self.last + 1))[:limit]
        self.read_so_far += len(found)
        return found

    async def pages(self, fits: Callable[[int], bool] | None, limit: int) -> list[list[int]]:
        pages: list[list[int]] = []
        at: int | None = None
        while True:
            page, at = await scan(self.read, lambda row: row, fits, at, limit)
            pages.append(page)
            if at is None:
                return pages


@pytest.mark.parametrize("last", [0, 1, 9, 10, 11, SCAN_PAGE, SCAN_PAGE + 1, 3 * SCAN_PAGE])
@pytest.mark.parametrize("fits", [None, lambda row: True, lambda row: row % 3 == 0, lambda row: False])
async def test_every_matching_row_is_returned_once_and_in_order(last: int, fits: Callable[[int], bool] | None) -> None:
    pages = await Rows(last).pages(fits, 10)
    assert [row for page in pages for row in page] == [row for row in range(1, last + 1) if fits is None or fits(row)]
    assert all(len(page) <= 10 for page in pages)


async def test_a_full_page_is_the_last_one_if_nothing_follows() -> None:
    assert await Rows(10).pages(lambda row: True, 10) == [list(range(1, 11))]
    assert await Rows(10).pages(None, 10) == [list(range(1, 11))]


async def test_one_request_reads_a_bounded_number_of_rows_and_reports_more() -> None:
    rows = Rows(10 * SCAN_MAX)
    page, at = await scan(rows.read, lambda row: row, lambda row: False, None, 10)
    assert (page, at, rows.read_so_far) == ([], SCAN_MAX, SCAN_MAX)


@pytest.mark.parametrize(("wanted", "texts", "found"), [
    ("a", ("xAx",), True), ("STRASSE", ("straße",), True), ("a", (None, ""), False), ("", ("x",), True), ("b", ("a",
    None, "B"), True)])
def test_text_is_matched_without_regard_to_case(wanted: str, texts: tuple[str | None, ...], found: bool) -> None:
    assert contains(wanted, *texts) is found
