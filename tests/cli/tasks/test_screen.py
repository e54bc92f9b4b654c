"""A session's frames at the terminal: each text once, only the result on standard output."""

from __future__ import annotations

import msgspec
import pytest

from interlock.cli.tasks.screen import Screen, summary
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.resources import Notice
from interlock.session.store.entry import Verbosity, verbosity


def delta(offset: int, text: str, block: str = "b1") -> tuple[str, p.Payload]:
    return "agent.text.delta", p.TextDelta(turn_id="t", block_id=block, offset=offset, text=text)


def done(text: str, block: str = "b1") -> tuple[str, p.Payload]:
    return "agent.text.done", p.TextDone(turn_id="t", block_id=block, text=text)


def tool_output(offset: int, text: str, channel: p.Channel = "stdout") -> tuple[str, p.Payload]:
    return "tool.invoke.stream", p.ToolStream(invocation_id="i", channel=channel, offset=offset, text=text)


def result(output: str, status: p.ToolStatus = "ok", truncated: p.Truncated | None = None) -> tuple[str, p.Payload]:
    return "tool.invoke.result", p.ToolResult(invocation_id="i", status=status, output_type="text", output=output,
                                              duration_ms=1, truncated=truncated)


def show(screen: Screen, *frames: tuple[str, p.Payload]) -> None:
    for name, payload in frames:
        screen.frame(name, payload)


@pytest.mark.req("E-4", "S-3")
def test_a_repeated_block_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("claude"), delta(0, "Hel"), delta(3, "lo"), delta(0, "Hello wo"), done("Hello world"))
    assert capsys.readouterr().out == "Hello world\n"


@pytest.mark.req("G-4")
def test_another_terminal_continues_in_the_middle_of_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    first = Screen("claude")
    show(first, delta(0, "Hello"))
    capsys.readouterr()
    second = Screen("claude")
    second.restore(first.shown())
    show(second, delta(0, "Hello wo"), done("Hello world"))
    assert capsys.readouterr().out == " world\n"
    assert second.shown() == {}


@pytest.mark.req("E-4")
def test_a_replaced_block_is_marked_and_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("claude"), delta(0, "Hello"), done("Goodbye"))
    out, err = capsys.readouterr()
    assert out.endswith("Goodbye\n")
    assert "replaced" in err


@pytest.mark.req("E-4")
def test_missing_text_is_taken_from_the_blocks_end(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("claude"), done("whole"))
    assert capsys.readouterr().out == "whole\n"


@pytest.mark.req("G-7", "Y-1")
@pytest.mark.parametrize(("raw", "title", "line"), [
    (b'{"questions":[{"question":"Which colour?","options":[]}]}', "AskUserQuestion",
     "▸ AskUserQuestion: Which colour?\n"),
    (b"{}", "AskUserQuestion", "▸ AskUserQuestion\n"),
    (b"{}", None, "▸ AskUserQuestion\n"),
    (b'{"n":1}', "AskUserQuestion", '▸ AskUserQuestion: {"n":1}\n'),
])
def test_a_tools_name_is_not_repeated_as_its_title(
    raw: bytes, title: str | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Screen("claude"), ("tool.invoke.request", p.ToolRequest(
        invocation_id="i", turn_id="t", tool_name="AskUserQuestion", title=title, input=msgspec.Raw(raw))))
    assert capsys.readouterr().err == line


@pytest.mark.req("G-7")
def test_thinking_and_tools_of_a_model_are_not_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    asked = p.ToolRequest(invocation_id="i", turn_id="t", tool_name="Bash", input=msgspec.Raw(b'{"command":"ls"}'))
    show(Screen("claude"), ("agent.thinking.delta", p.TextDelta(turn_id="t", block_id="k", offset=0, text="hm")),
         ("tool.invoke.request", asked), tool_output(0, "a.txt\n"), result("a.txt\n"), done("One file."))
    out, err = capsys.readouterr()
    assert out == "One file.\n"
    assert "▸ Bash: ls" in err
    assert "a.txt" in err


@pytest.mark.req("G-7")
def test_the_shells_output_is_its_result_byte_by_byte(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("shell"), tool_output(0, "no newline"), tool_output(0, "warn\n", "stderr"), result("no newlinewarn\n"),
         done("ran 1 command"))
    out, err = capsys.readouterr()
    assert out == "no newline"
    assert "warn\n" in err
    assert "ran 1 command" in err


@pytest.mark.req("S-3", "E-4")
def test_output_missed_while_disconnected_is_taken_from_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("shell"), tool_output(0, "one\n"), result("one\ntwo\n"))
    assert capsys.readouterr().out == "one\ntwo\n"
    other = Screen("shell")
    other.restore({"i/stdout": 4})
    show(other, result("one\ntwo\n"))
    assert capsys.readouterr().out == "two\n"


@pytest.mark.req("S-3", "G-4")
@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_output_that_another_terminal_showed_is_not_the_tools_reason(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    again = Screen("shell")
    again.restore({"i/stdout": 4})
    show(again, result("one\n", status))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("✗ tool ")
    assert "one" not in err


@pytest.mark.req("E-5")
@pytest.mark.parametrize(("output", "printed"), [("one\ntwo\n", "one\ntwo\n"), ("it failed", "one\n")])
def test_output_of_a_failed_tool_that_was_not_streamed_is_shown_from_its_result(
    output: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Screen("shell"), tool_output(0, "one\n"), result(output, "error"))
    assert capsys.readouterr().out == printed


def test_truncated_output_is_counted_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    cut = p.Truncated(bytes_total=1000, bytes_kept=10, sha256="0" * 64)
    show(Screen("shell"), tool_output(0, "x" * 1000), result("xxxxxxxxxx", truncated=cut))
    out, err = capsys.readouterr()
    assert out == "x" * 1000
    assert "1000 bytes of output, of which 10 are kept" in err
    Screen("shell").notice(Notice(code="BufferTruncated", message="The buffer was full.", lost_frame_count=3))
    assert "(3 frames lost)" in capsys.readouterr().err


@pytest.mark.req("A-5", "G-7")
def test_a_denied_tool_is_reported_and_is_not_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("shell"), result("not allowed", "denied"))
    out, err = capsys.readouterr()
    assert out == ""
    assert "was not allowed: not allowed" in err


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("reason", "words"), [("cancel", "✗ shell was canceled: ended by SIGTERM"),
                                               ("timeout", "✗ shell was cut short: ended by SIGTERM"),
                                               (None, "✗ shell was cut short: ended by SIGTERM")])
def test_a_tool_that_ended_early_shows_whether_it_was_canceled(
    reason: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen("shell")
    show(screen, ("tool.invoke.request", p.ToolRequest(invocation_id="i", turn_id="t", tool_name="shell",
                                                       input=msgspec.Raw(b"{}"))))
    if reason is not None:
        show(screen, ("control.turn.cancel", p.TurnCancel(reason=reason)))
    show(screen, result("ended by SIGTERM", "cancelled"))
    assert capsys.readouterr().err.splitlines()[-1] == words


@pytest.mark.req("G-7")
def test_an_agents_error_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("claude")
    show(screen, ("agent.error", p.AgentError(severity="error", error_code="PROCESS_EXIT", message="It died.")))
    screen.show_errors("It died.")
    assert capsys.readouterr().err == ""
    show(screen, ("agent.error", p.AgentError(severity="error", error_code="PROCESS_EXIT", message="\x1b[2Jdied")))
    screen.show_errors("Something else.")
    assert capsys.readouterr().err == "agent error[PROCESS_EXIT]: \\x1b[2Jdied\n"


@pytest.mark.req("G-7")
def test_a_tools_input_fits_on_one_line() -> None:
    assert summary("Bash", b'{"command":"ls -l\\nrm x"}', None) == "ls -l rm x"
    assert summary("Bash", b'{"path":"a"}', "Read a") == "Read a"
    assert summary("Bash", b'{"path":"a"}', None) == '{"path":"a"}'
    assert summary("Bash", b"\xff", None) == "\ufffd"


@pytest.mark.req("I-4", "V-1")
@pytest.mark.parametrize(("detail", "err"), [
    ("off", ""), ("on", "▸ Bash: ls\n🧹 complete (2)\n"), ("full", "hm\n▸ Bash: ls\nfile.py\n🧹 complete (2)\n"),
])
def test_extra_output_depends_on_the_verbose_level_of_the_session(
    capsys: pytest.CaptureFixture[str], detail: Verbosity, err: str
) -> None:
    asked = p.ToolRequest(turn_id="t", invocation_id="i", tool_name="Bash", input=msgspec.Raw(b'{"command": "ls"}'))
    screen = Screen("claude", detail=detail)
    show(screen, ("agent.thinking.done", p.TextDone(turn_id="t", block_id="k", text="hm")),
         ("tool.invoke.request", asked), tool_output(0, "file.py\n"), result("file.py\n"), done("There is one."))
    screen.notice(Notice(code="AutoCompacted", message="🧹 complete (2)"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("There is one.\n", err)
    # A failure is shown at every level, with its output unless it was shown before.
    show(screen, ("tool.invoke.request", asked), tool_output(0, "no such file"), result("no such file", "error"))
    failed = capsys.readouterr().err
    assert "✗ Bash failed" in failed
    assert "no such file" in failed
    assert [verbosity(word, "on") for word in (None, "FULL", "off", "loud", 7)] == ["on", "full", "off", "on", "on"]


@pytest.mark.req("H-11", "H-13")
@pytest.mark.parametrize(("code", "lines"), [(Code.WORKSPACE_NOT_TRUSTED, 0), (Code.NOT_ASKING, 0),
                                             (Code.AGENT_START_FAILED, 1)])
def test_a_refusal_that_becomes_an_approval_is_not_shown_as_an_error(
    capsys: pytest.CaptureFixture[str], code: Code, lines: int
) -> None:
    screen = Screen("claude")
    show(screen, ("session.error", p.SessionError(error_code=code, message="It was not started.", fatal=True)))
    screen.show_errors()
    assert capsys.readouterr().err.count("It was not started.") == lines
