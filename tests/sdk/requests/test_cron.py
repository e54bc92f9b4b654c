"""A cron job run by hand (R-4): a change under a key, so that it is run once."""

import pytest

from interlock.sdk.requests.cron import run
from sdk.requests.asked import body, line


@pytest.mark.req("R-4", "M-1")
def test_a_job_is_named_in_the_path_and_run_once_under_its_key() -> None:
    asked = run("night/ly", idempotency_key="own")
    assert (line(asked), body(asked), asked.key) == ("POST /v1/cron/night%2Fly/run", {}, "own")
    assert run("nightly").with_key("fresh").repeatable
