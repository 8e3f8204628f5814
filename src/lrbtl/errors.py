"""Every error and warning that lrbtl raises, in one flat list.

A message says what is wrong, where, and what to do next.
"""


class LrbtlError(Exception):
    """Base of all errors raised by lrbtl."""


class LrbtlWarning(UserWarning):
    """Base of all warnings issued by lrbtl."""
