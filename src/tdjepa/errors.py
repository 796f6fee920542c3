"""The one exception that a user is meant to see: a sentence, no stack trace, exit status 2."""


class UserError(Exception):
    """Something the user can mend; the message names the file or key, what was found and what was expected."""
