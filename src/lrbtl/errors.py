"""Every error and warning that lrbtl raises, in one flat list.

A message says what is wrong, where, and what to do next.
"""


class LrbtlError(Exception):
    """Base of all errors raised by lrbtl."""


class LrbtlWarning(UserWarning):
    """Base of all warnings issued by lrbtl."""


class RankError(LrbtlError):
    """A rank that no score tensor of this shape has."""


class SamplingError(LrbtlError):
    """A sampling law that is no law, does not fit the battles, or cannot be estimated from them."""


class SeparationError(LrbtlError):
    """A gap between models that the battles leave infinite or unknown."""


class SeparationWarning(LrbtlWarning):
    """Scores that do not exist, because some models only win, only lose, or never meet."""


class SimulationError(LrbtlError):
    """Arguments from which no scores or battles can be simulated."""
