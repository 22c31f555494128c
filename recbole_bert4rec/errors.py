"""The one exception for mistakes a user can mend; the command lines print it without a traceback."""


class UserError(ValueError):
    """What is wrong, where, the value received and how to mend it, in words meant for the user."""
