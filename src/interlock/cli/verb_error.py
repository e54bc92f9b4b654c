"""What ends a verb without its result: one sentence that says what happened, where, and what to do."""

from __future__ import annotations

from interlock.cli.exit_status import BY_CODE, ExitStatus


class Trouble(Exception):
    """Printed as `error[code]: sentence remedy`; `status` is the exit status, by default the code's own."""

    def __init__(self, code: str, sentence: str, remedy: str = "", status: ExitStatus | None = None, *,
                 retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.remedy = remedy
        self.retry_after_s = retry_after_s
        """What the gateway asked to wait before the same is sent again (K-3); None if it did not."""
        self.status = status if status is not None else BY_CODE.get(code, ExitStatus.FAILED)

    @property
    def label(self) -> str:
        """The beginning of its line that names the error, and that alone is coloured."""
        return f"error[{self.code}]:"

    def line(self) -> str:
        """The one line for standard error."""
        from interlock.protocol.problems import full_sentence

        return f"error[{self.code}]: {full_sentence(self.sentence)} {self.remedy}".rstrip()


def usage(sentence: str, remedy: str = "") -> Trouble:
    """A wrong argument, option, file or setting: exit status 2."""
    return Trouble("Usage", sentence, remedy)
