"""The words with which a prompt controls the model server.

| word              | what the server does                                                                        |
|-------------------|---------------------------------------------------------------------------------------------|
| `[[tool:COMMAND]]`| calls the shell tool that the agent offers with COMMAND, which ends at the first `]]`; a     |
|                   | second such word is called after the first one's result, and so on                          |
| `[[agent:COMMAND]]`| hands over to a subagent, if one is on offer, whose own prompt is `[[tool:COMMAND]]`        |
| `[[ask:QUESTION]]`| asks the user, through the tool that the agent offers for that                              |
| `[[chunks:N]]`    | N text chunks `chunk I of N\\n`; before the tool call, where there is one                     |
| `[[wide:BYTES]]`  | pads each of these chunks to this number of bytes, if it is shorter                         |
| `[[delay:MS]]`    | waits MS milliseconds before every chunk but the first, and before a tool call after text   |
| `[[fail:STATUS]]` | answers with that HTTP status and the provider's error body, and asks not to be retried     |
| `[[call:NAME JSON]]`| calls the tool NAME with these arguments, sound JSON or not; in order with `[[tool:…]]`   |
| `[[do:DEED JSON]]`| calls the tool on offer that does DEED (write, edit, fetch, mark: that of the checks' own   |
|                   | MCP server, or outside: a command outside the agent's own sandbox) with the object's path,  |
|                   | content, old, new, url, name or command, under the names that the tool has for them         |
| `[[many:N]]`      | repeats the calls of this prompt N times, all in one answer                                 |
| `[[say:TEXT]]`    | says TEXT; before the tool call, where there is one                                         |
| `[[think:TEXT]]`  | thinks TEXT before it says anything                                                         |
| `[[flood:N]]`     | N bytes of text, in chunks of 8 KiB that differ                                             |
| `[[empty]]`       | answers nothing                                                                             |
| `[[hang]]`        | sends its text, and then neither continues nor ends                                         |
| `[[cut]]`         | sends its text, and then the connection is closed in the middle                             |
| `[[ends]]`        | sends its text, and then the stream ends cleanly, without a finish reason                   |
| `[[length]]`      | sends its text, with the limit of its length as the finish reason                           |
| `[[summary:WORD]]`| a summary of a conversation with this word is answered as `[[ends]]` or `[[length]]`        |
| `[[flaky:STATUS:N]]`| fails with that status N times, and allows retries                                        |
| `[[room:CHARS]]`  | does not fit the context while the request has more characters than that                    |
| `[[tokens:N]]`    | reports N tokens of input instead of a hundred, as long as the word is in the conversation  |
| `[[state]]`, `state` | answers with the request's settings: model, effort, and words of the instructions        |
| `[[overflow]]`    | answers that the prompt does not fit the context, in the provider's words                   |

A prompt that asks for a memory flush is obeyed: the file that it names is written, if a `write` tool is offered, and
the answer is `NO_REPLY`.

Only the last paragraph of a prompt counts: an agent may send a cancelled prompt again, before the next one and a blank
line between them. A blank line inside a word is part of the word. Interlock's note of denied calls, which some agents
append to a prompt in a separate paragraph, does not count as one.

Without a word the answer is one short text. When every tool call has its result, the answer is `AFTER_TOOL`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

AFTER_TOOL = "Tool result received. All done."
GREETING = "Hello from the model server."
NO_TOOL = "No shell tool was offered."

MAX_CHUNKS = 100_000
MAX_DELAY_MS = 60_000
MAX_WIDTH = 65_536
MAX_CALLS = 1_000

_PARAGRAPH = re.compile(r"\n\s*\n(?![^\[]*\]\])")
_NOTE = "Note of Interlock, which starts you"
"""The beginning of the ACP adapter's note."""
_AGENT = re.compile(r"\[\[agent:(.*?)\]\]", re.DOTALL)
_ASK = re.compile(r"\[\[ask:(.*?)\]\]", re.DOTALL)
_CHUNKS = re.compile(r"\[\[chunks:(\d+)\]\]")
_WIDE = re.compile(r"\[\[wide:(\d+)\]\]")
_DELAY = re.compile(r"\[\[delay:(\d+)\]\]")
_FAIL = re.compile(r"\[\[fail:([45]\d\d)\]\]")
_CALLED = re.compile(r"\[\[(?:tool:(.*?)|call:(\S+) (.*?))\]\]", re.DOTALL)
_ACTION = re.compile(r"\[\[do:(\w+) (\{.*?\})\]\]", re.DOTALL)
_MANY = re.compile(r"\[\[many:(\d+)\]\]")
_SAY = re.compile(r"\[\[say:(.*?)\]\]", re.DOTALL)
_THINK = re.compile(r"\[\[think:(.*?)\]\]", re.DOTALL)
_FLOOD = re.compile(r"\[\[flood:(\d+)\]\]")
_FLAKY = re.compile(r"\[\[flaky:([45]\d\d):(\d+)\]\]")
SUMMARY = re.compile(r"\[\[summary:(ends|length)\]\]")
_ROOM = re.compile(r"\[\[room:(\d+)\]\]")
FLOOD_CHUNK = 8_192
_OVERFLOW = "[[overflow]]"


FLUSH = re.compile(r"memory flush.*?`(memory/[\w-]+\.md)`", re.DOTALL)
SILENT = "NO_REPLY"


@dataclass(frozen=True, slots=True)
class Script:
    """The parsed words of a prompt."""

    calls: tuple[tuple[str, str], ...] = ()
    """(tool, arguments as text); a shell command has no tool: the offered shell tool is used."""
    action: tuple[str, str] | None = None
    """(write, edit or fetch; the object with its values, as JSON)."""
    many: int = 1
    says: tuple[str, ...] = ()
    thinks: str | None = None
    empty: bool = False
    hangs: bool = False
    cut: bool = False
    ends: bool = False
    length: bool = False
    flaky: tuple[int, int] | None = None
    room_chars: int | None = None
    state: bool = False
    chunks: int | None = None
    width: int = 0
    """Minimum bytes of each chunk."""
    delay_seconds: float = 0.0
    fail_status: int | None = None
    overflow: bool = False
    delegated: str | None = None
    question: str | None = None


def read_script(prompt: str) -> Script:
    """Parse the words of a prompt; numbers above the named limits are reduced to them, unknown words are ignored."""
    paragraphs = _PARAGRAPH.split(prompt)
    prompt = next((one for one in reversed(paragraphs) if not one.startswith(_NOTE)), "")
    chunks, delay, fail = _CHUNKS.search(prompt), _DELAY.search(prompt), _FAIL.search(prompt)
    many, thinks, flood = _MANY.search(prompt), _THINK.search(prompt), _FLOOD.search(prompt)
    flaky, room = _FLAKY.search(prompt), _ROOM.search(prompt)
    delegated, question = _AGENT.search(prompt), _ASK.search(prompt)
    action, wide = _ACTION.search(prompt), _WIDE.search(prompt)
    return Script(
        action=(action[1], action[2]) if action else None,
        calls=tuple((name, arguments.strip()) if name else ("", command.strip())
                    for command, name, arguments in _CALLED.findall(prompt)),
        many=min(int(many[1]), MAX_CALLS) if many else 1,
        says=(*_SAY.findall(prompt), *flood_texts(int(flood[1]) if flood else 0)),
        thinks=thinks[1] if thinks else None,
        empty="[[empty]]" in prompt,
        hangs="[[hang]]" in prompt,
        cut="[[cut]]" in prompt,
        ends="[[ends]]" in prompt,
        length="[[length]]" in prompt,
        flaky=(int(flaky[1]), int(flaky[2])) if flaky else None,
        room_chars=int(room[1]) if room else None,
        state="[[state]]" in prompt or prompt.strip() == "state",
        chunks=min(int(chunks[1]), MAX_CHUNKS) if chunks else None,
        width=min(int(wide[1]), MAX_WIDTH) if wide else 0,
        delay_seconds=min(int(delay[1]), MAX_DELAY_MS) / 1000 if delay else 0.0,
        fail_status=int(fail[1]) if fail else None,
        overflow=_OVERFLOW in prompt,
        delegated=delegated[1].strip() if delegated else None,
        question=question[1].strip() if question else None,
    )


def chunk_texts(count: int, width: int = 0) -> tuple[str, ...]:
    """Return the texts for `[[chunks:count]]`, one for each chunk, each of `width` bytes at least."""
    return tuple(f"chunk {number} of {count}".ljust(width - 1, ".") + "\n" for number in range(1, count + 1))


def flood_texts(size: int) -> tuple[str, ...]:
    """Return the texts of `[[flood:size]]`: each begins with its number."""
    return tuple(f"{number:010d}" + "x" * (FLOOD_CHUNK - 11) + "\n" for number in range(size // FLOOD_CHUNK))


def words_as_chunks(text: str) -> tuple[str, ...]:
    """Split a sentence into a few chunks, as a model would stream it."""
    return tuple(re.findall(r"\S+\s*", text))
