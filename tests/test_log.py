"""Logs are JSON lines, and no value of a variable reaches them."""

import json
from pathlib import Path

import pytest
import structlog

from interlock.log import as_text, configure

pytestmark = pytest.mark.usefixtures("logs_as_before")


@pytest.mark.req("K-4")
def test_a_traceback_is_logged_without_the_values_in_its_frames(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    file = configure(path)
    key = "ilk_" + "private"
    try:
        raise RuntimeError("broken " + str(len(key)))
    except RuntimeError as error:
        structlog.get_logger("interlock").error("request_failed", path="/v1/commands", exc_info=error)
    file.close()
    text = path.read_text()
    line = json.loads(text)
    assert (line["event"], line["level"], line["path"]) == ("request_failed", "error", "/v1/commands")
    assert line["exception"][0]["exc_value"] == "broken 11"
    assert key not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_the_log_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    structlog.get_logger("interlock").info("up", port=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["port"] == 1


@pytest.mark.req("K-4")
def test_bound_values_are_in_every_line_and_redacted_too(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    file = configure(path)
    with structlog.contextvars.bound_contextvars(tenant_id="default", note="Bearer abcdefghijkl"):
        structlog.get_logger("interlock").info("link")
    file.close()
    line = json.loads(path.read_text())
    assert (line["tenant_id"], line["note"]) == ("default", "Bearer ...")


def test_a_line_is_readable_text_and_foreign_output_stays_unchanged() -> None:
    assert as_text('{"timestamp":"2026-11-21T10:11:12.5Z","level":"info","event":"link","n":1,"why":"so"}') == (
        "10:11:12 link  n=1  why=so\n")
    assert as_text('{"timestamp":"2026-11-21T10:11:12Z","level":"error","event":"x","exception":[{"exc_type":"E",'
                   '"exc_value":"bad"}]}') == "10:11:12 error: x  error=E: bad\n"
    assert as_text('{"timestamp":"2026-11-21T10:11:12Z","level":"info","event":"x",'
                   '"path":"a\\nb\\u001b[2J\\u202e"}') == '10:11:12 x  path="a\\nb\\u001b[2J\\u202e"\n'
    for other in ("Fatal Python error\n", "[1]\n", "{}\n", "3\n"):
        assert as_text(other) == other


def test_a_log_that_cannot_be_written_ends_no_process(tmp_path: Path) -> None:
    file = configure(tmp_path / "gateway.log")
    file.close()
    structlog.get_logger().info("link", state="attached")
