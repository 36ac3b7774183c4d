from __future__ import annotations

import os
import tempfile

from hypothesis import settings

# Runs that tests train are no runs of this machine; a monitor on it must not see them.
os.environ["STOKER_RUNS"] = tempfile.mkdtemp(prefix="stoker-runs-")

settings.register_profile("stoker", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("stoker")
