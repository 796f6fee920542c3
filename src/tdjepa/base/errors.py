"""The exceptions that a user is meant to see: a sentence, no stack trace."""


class UserError(Exception):
    """Something the user can mend; the message names the file or key, what was found and what was expected. Exit status 2."""

    def __init__(self, message: str):  # what was found may hold anything; what reaches the terminal is plain text
        super().__init__("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in message))


def shown(value) -> str:
    """A value that was found in a file, short and in one line."""
    return " ".join(str(value)[:60].split())


def reason(error: BaseException) -> str:
    """What a library says of a file that it cannot read: its first line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


class Stopped(Exception):
    """The work was asked to stop and has saved itself; the same command goes on. Exit status 75, which the workflow retries."""
