"""Property tests draw the same examples every time, so that a red run repeats; HYPOTHESIS_PROFILE=random explores."""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
