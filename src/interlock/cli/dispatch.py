"""Run the verb that the words name, and convert any exception to one sentence and an exit status."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble, usage

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of writing to a disk that is full or damaged."""
NOT_ALLOWED = (errno.EACCES, errno.EPERM)
"""Errors of opening a file of another user."""
NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of a path that no file can have."""
BROKEN_PIPE = 141
"""The exit status that a shell reports for a program ended by a closed pipe."""

_PROPOSED = re.compile(r"(?P<before>.*?--?(?P<typed>[^=]+?)(?:=.*)?\.) Did you mean --?(?P<proposed>\S+)\?", re.DOTALL)
WRONG_CHARS = 100
"""Characters of a wrong argument that an error shows."""
LIKENESS = 0.7
"""How similar, by `difflib`, a mistyped verb and an existing one must be for the second to be proposed."""


def dispatch(words: list[str]) -> int:
    """Run the verb that the words name; returns its exit status, and raises nothing."""
    if words[:1] == ["__complete"]:
        from interlock.cli.completion import complete

        return complete(words[1:])
    try:
        return _run(words)
    except Trouble as trouble:
        return _failed(trouble)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):
            return BROKEN_PIPE  # The library that prints the help ends the process by itself.
        return ending.code if isinstance(ending.code,
                                         int) else ExitStatus.DONE if ending.code is None else ExitStatus.FAILED
    except OSError as error:
        return _of_the_host(error) or _surprised(error, words)
    except UnicodeEncodeError as error:
        wrong = next((word for word in words if not _is_text(word)), None)
        return _surprised(error, words) if wrong is None else _failed(usage(
            f"The argument {wrong[:WRONG_CHARS]!a} is not text in UTF-8.", "Convert it first."))
    except Exception as error:  # noqa: BLE001 - the last resort of the process: reported, kept in a file, never a traceback
        return _surprised(error, words)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_the_host(error: OSError) -> int | None:
    """Report an error of this host: a full disk, a file of another user, or a path that no file can have; returns the
    exit status, None for any other error."""
    if error.filename is None:
        return unwritten(error) if error.errno in NO_ROOM else None
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    if error.errno in NO_ROOM:
        return _failed(Trouble("NoRoom", f"{name} could not be written: {error.strerror}.", "Make room on its disk."))
    if error.errno in NOT_ALLOWED:
        return _failed(usage(f"{name} cannot be read or written: {error.strerror}.",
                             "Check who owns it; a verb that once ran as another user leaves files of that user."))
    if error.errno == errno.EROFS:
        return _failed(usage(f"{name} cannot be written: {error.strerror}.",
                             "Make that file system writable, or name a place on another one."))
    if error.errno in NO_PATH:
        return _failed(usage(f"{name} cannot be read or written: {error.strerror}.", "Name another path."))
    return None


def unwritten(error: OSError) -> int:
    """Report that standard output cannot be written; returns the exit status."""
    discard(sys.stdout)
    return _failed(Trouble("NoRoom", f"What this verb writes could not be written: {error.strerror}.",
                           "Make room, or send standard output elsewhere; what the gateway took stays as it is."))


def discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to /dev/null. Otherwise the interpreter flushes its buffer at exit,
    fails again, and replaces the exit status by 120."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from interlock import __version__

        sys.stdout.write(f"interlock {__version__}\n")
        return ExitStatus.DONE
    if not os.environ.get("COLUMNS", "").strip("0"):
        os.environ.pop("COLUMNS", None)  # A terminal of unknown width reports 0, too narrow for any word.
    words = _without_agent_flags(spelled(words))
    if words in ([], ["--help"], ["-h"]):
        from interlock.cli import first_page

        if (cells := first_page.width()) is not None:
            first_page.show(cells)
            return ExitStatus.DONE
    from cyclopts import CycloptsError

    from interlock.cli.display.progress import working
    from interlock.cli.verbs import build

    try:
        app = build()
        with working(words):
            status = app(words)
    except CycloptsError as error:
        if os.environ.get("INTERLOCK_DEBUG"):
            raise
        raise _usage_of(error, words) from None
    return status if isinstance(status, int) else ExitStatus.DONE


def spelled(words: list[str]) -> list[str]:
    """Return the words with spellings of other programs replaced (Y-8): `help`, `help VERB`, `open`, `commands` (tasks,
    as the API calls them), and `list` after a verb that lists by itself."""
    match words:
        case ["help", *verb] if not any(word.startswith("-") for word in verb):
            return [*verb, "--help"]
        case ["open", *more]:
            return ["console", *more]
        case ["commands", *more]:
            return ["tasks", *more]
        case [("approvals" | "budgets" | "policy" | "sessions" | "tasks" | "usage") as verb, "list", *more]:
            return [verb, *more]
        case _:
            return words


def _without_agent_flags(words: list[str]) -> list[str]:
    """Return the words of `run` without `--`. Raises Trouble for flags after it: they are meant for the agent, and are
    not passed on for a single run."""
    if words[:1] != ["run"] or "--" not in words:
        return words
    at = words.index("--")
    flags = words[at + 1:]
    if flags:
        raise usage(f"Flags for the agent itself ({' '.join(flags)}) cannot be passed to a single run.",
                    "Put them into `args` of [agents.<id>] in the config; see: interlock config path")
    return words[:at]


def _usage_of(error: Exception, words: list[str]) -> Trouble:
    """Return the parser's error as one sentence."""
    from cyclopts import MissingArgumentError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

    from interlock.cli.display.terminal import one_line
    from interlock.cli.verbs import below, names

    verb = words[0] if words and words[0] in names() else ""
    if verb and words[1:] and words[1] in below(verb):
        verb = f"{verb} {words[1]}"
    sentence = " ".join(str(error).split())
    if isinstance(error, UnknownOptionError):
        sentence = _without_unlike(sentence)
    if isinstance(error, UnusedCliTokensError):
        more = " ".join(error.unused_tokens or [])
        sentence = f"`interlock {verb}` takes no argument {one_line(more)!r}."
        if below(verb) and words[1:] and not words[1].startswith("-"):
            sentence = f"`interlock {verb}` has no verb {one_line(words[1])!r}."
    if isinstance(error, UnknownCommandError):
        word = (error.unused_tokens or [""])[0]
        sentence = f"`interlock {verb}` has no verb {one_line(word)!r}." if verb else _unknown_verb(word)
    if isinstance(error, MissingArgumentError) and error.keyword is None and verb:
        wanted = error.argument.name if error.argument is not None else "an argument"
        sentence = f"`interlock {verb}` needs {wanted}."
    return usage(sentence or type(error).__name__, f"See: interlock {verb} --help".replace("  ", " "))


def _without_unlike(sentence: str) -> str:
    """Remove the parser's proposal of another option if only its dashes are like those of the one that was typed."""
    from difflib import SequenceMatcher

    found = _PROPOSED.fullmatch(sentence)
    if found is None or SequenceMatcher(None, found["typed"], found["proposed"]).ratio() >= LIKENESS:
        return sentence
    return found["before"]


def _unknown_verb(word: str) -> str:
    """Return the sentence that there is no such verb, with the most similar one."""
    from difflib import get_close_matches

    from interlock.cli.display.terminal import one_line
    from interlock.cli.verbs import names

    if word.startswith("-"):
        return f"There is no option {one_line(word)}."
    swapped = [name for name in names() if sorted(name) == sorted(word)]
    close = swapped or get_close_matches(word, names(), n=1, cutoff=LIKENESS)
    meant = f" Did you mean `interlock {close[0]}`?" if close else ""
    return f"There is no verb {one_line(word)!r}.{meant}"


def _failed(trouble: Trouble) -> int:
    from interlock.cli.display.terminal import say

    if os.environ.get("INTERLOCK_DEBUG"):
        _print_traceback()
    try:
        say(trouble.line(), "red", trouble.label)
    except OSError:  # Standard error may be full, too: in that case only the exit status reports the failure.
        discard(sys.stderr)
    return trouble.status


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def _surprised(error: Exception, words: list[str]) -> int:
    """Report an exception that no verb expects: store its traceback in a file, and print where."""
    if os.environ.get("INTERLOCK_DEBUG"):
        _print_traceback()
        return ExitStatus.FAILED
    kept = _keep(error, words)
    remedy = f"The details are in {kept}; please report them." if kept else "INTERLOCK_DEBUG=1 shows the details."
    what = " ".join(str(error).split()) or "no more is known"
    verb = words[0] if words else ""
    return _failed(Trouble("InternalError", f"interlock {verb} failed unexpectedly ({type(error).__name__}: {what}).",
                           remedy))


def _keep(error: Exception, words: list[str]) -> Path | None:
    """Write the traceback to a file; the words are stored without the prompt, which may be private."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"interlock-error-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".log")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"interlock {words[0] if words else ''}\n{text}")
    except OSError:
        return None
    return Path(name)
