"""Which job of which pipeline this is: a repeated job finds its task, another job never does (O-10, M-1)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.doors.ci.pipeline_run import ATTEMPTS_LOOKED_AT, run_of, style_of

pytestmark = pytest.mark.req("O-10")
GITHUB = {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r",
          "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_JOB": "build", "GITHUB_ACTION": "__run",
          "INTERLOCK_CI_JOB_INDEX": "0"}
GITLAB = {"GITLAB_CI": "true", "CI_SERVER_URL": "https://gitlab.com", "CI_PROJECT_ID": "1", "CI_PIPELINE_ID": "9",
          "CI_JOB_NAME": "build 1/2", "CI_JOB_ID": "100"}


def keys(environ: dict[str, str], run_key: str | None = None, body: bytes = b"p", *, rerun: bool = False,
         **more: str) -> list[str]:
    run = run_of({**environ, **more}, run_key)
    assert run is not None
    return run.keys(body, rerun=rerun)


def test_a_second_attempt_checks_the_first_attempts_task_before_its_own() -> None:
    first, second = keys(GITHUB), keys(GITHUB, GITHUB_RUN_ATTEMPT="2")
    assert (len(first), len(second)) == (1, 2)
    assert second[0] == first[0]
    assert keys(GITHUB, GITHUB_RUN_ATTEMPT="2", rerun=True) == second[1:]


def test_a_retried_gitlab_job_checks_it_too() -> None:
    first, retried = keys(GITLAB), keys(GITLAB, CI_JOB_ID="101")
    assert first[0] == retried[0]
    assert first[1] != retried[1]


@pytest.mark.parametrize(("environ", "change"), [
    *[(GITHUB, {name: "x9"}) for name in GITHUB if name not in ("GITHUB_ACTIONS", "GITHUB_RUN_ATTEMPT")],
    *[(GITLAB, {name: "x9"}) for name in GITLAB if name not in ("GITLAB_CI", "CI_JOB_ID")],
])
def test_another_repository_run_job_step_or_matrix_cell_has_its_own_task(
    environ: dict[str, str], change: dict[str, str]
) -> None:
    assert set(keys(environ)).isdisjoint(keys(environ, **change))


def test_another_prompt_or_name_has_its_own_task() -> None:
    same: list[Any] = [keys(GITHUB), keys(GITHUB, body=b"q"), keys(GITHUB, "name"), keys({}, "name"), keys({}, "other")]
    assert len({one[0] for one in same}) == len(same)
    assert keys({}, "name") == keys({}, "name")


def test_key_parts_are_separated() -> None:
    assert keys(GITHUB, GITHUB_JOB="a", GITHUB_ACTION="bc") != keys(GITHUB, GITHUB_JOB="ab", GITHUB_ACTION="c")


def test_a_shell_without_ci_variables_is_not_a_run() -> None:
    assert run_of({}, None) is None
    assert run_of({"GITHUB_RUN_ID": "7", "CI_PIPELINE_ID": "9"}, None) is None
    assert (style_of({}), style_of(GITLAB), style_of(GITHUB)) == ("plain", "plain", "github")


@pytest.mark.parametrize(("attempt", "count"), [("3", 3), ("400", ATTEMPTS_LOOKED_AT), ("0", 1), ("-1", 1), ("x", 1),
                                                ("9" * 5_000, 1), ("", 1)])
def test_attempts_are_bounded(attempt: str, count: int) -> None:
    assert len(keys(GITHUB, GITHUB_RUN_ATTEMPT=attempt)) == count


def test_a_key_has_the_gateways_form() -> None:
    assert all(len(key) == 67 and key.startswith("ci-") for key in keys(GITHUB))
