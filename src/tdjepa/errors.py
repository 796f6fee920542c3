"""The exceptions that a user is meant to see: a sentence, no stack trace."""


class UserError(Exception):
    """Something the user can mend; the message names the file or key, what was found and what was expected. Exit status 2."""


class Stopped(Exception):
    """The work was asked to stop and has saved itself; the same command goes on. Exit status 75, which the workflow retries."""
