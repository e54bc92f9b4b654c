"""What a prompt asks the model server to answer.

| word              | what the server does                                                                        |
|-------------------|---------------------------------------------------------------------------------------------|
| `[[tool:COMMAND]]`| calls the shell tool that the agent offers with COMMAND, which ends at the first `]]`; a     |
|                   | second such word is called after the first one's result, and so on                          |
| `[[agent:COMMAND]]`| hands over to a subagent, if one is on offer, whose own prompt is `[[tool:COMMAND]]`        |
| `[[ask:QUESTION]]`| asks the user, through the tool that the agent offers for that                              |
| `[[chunks:N]]`    | N text chunks `chunk I of N\\n`; before the tool call, where there is one                     |
| `[[delay:MS]]`    | waits MS milliseconds before every chunk but the first, and before a tool call after text   |
| `[[fail:STATUS]]` | answers with that HTTP status and the provider's error body, and asks not to be retried     |
| `[[overflow]]`    | answers that the prompt does not fit the context, in the provider's words                   |

Only the last paragraph of a prompt steers: an agent may send a cancelled prompt again, in front of the next one and a
blank line between them. A blank line inside a word is part of the word.

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

_PARAGRAPH = re.compile(r"\n\s*\n(?![^\[]*\]\])")
_TOOL = re.compile(r"\[\[tool:(.*?)\]\]", re.DOTALL)
_AGENT = re.compile(r"\[\[agent:(.*?)\]\]", re.DOTALL)
_ASK = re.compile(r"\[\[ask:(.*?)\]\]", re.DOTALL)
_CHUNKS = re.compile(r"\[\[chunks:(\d+)\]\]")
_DELAY = re.compile(r"\[\[delay:(\d+)\]\]")
_FAIL = re.compile(r"\[\[fail:([45]\d\d)\]\]")
_OVERFLOW = "[[overflow]]"


@dataclass(frozen=True, slots=True)
class Script:
    """A prompt's words, read."""

    commands: tuple[str, ...] = ()
    chunks: int | None = None
    delay_seconds: float = 0.0
    fail_status: int | None = None
    overflow: bool = False
    delegated: str | None = None
    question: str | None = None


def read_script(prompt: str) -> Script:
    """Read the words of a prompt; numbers above the named limits are cut to them, unknown words are passed over."""
    prompt = _PARAGRAPH.split(prompt)[-1]
    chunks, delay, fail = _CHUNKS.search(prompt), _DELAY.search(prompt), _FAIL.search(prompt)
    delegated, question = _AGENT.search(prompt), _ASK.search(prompt)
    return Script(
        commands=tuple(command.strip() for command in _TOOL.findall(prompt)),
        chunks=min(int(chunks[1]), MAX_CHUNKS) if chunks else None,
        delay_seconds=min(int(delay[1]), MAX_DELAY_MS) / 1000 if delay else 0.0,
        fail_status=int(fail[1]) if fail else None,
        overflow=_OVERFLOW in prompt,
        delegated=delegated[1].strip() if delegated else None,
        question=question[1].strip() if question else None,
    )


def chunk_texts(count: int) -> tuple[str, ...]:
    """The texts that `[[chunks:count]]` is answered with, one for each chunk."""
    return tuple(f"chunk {number} of {count}\n" for number in range(1, count + 1))


def words_as_chunks(text: str) -> tuple[str, ...]:
    """A sentence in a few chunks, as a model would stream it."""
    return tuple(re.findall(r"\S+\s*", text))
