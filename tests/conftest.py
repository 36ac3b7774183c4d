from __future__ import annotations

import os
import tempfile

from hypothesis import settings

# Runs that tests train are no runs of this machine; a monitor on it must not see them.
_runs = tempfile.TemporaryDirectory(prefix="stoker-runs-")
os.environ["STOKER_RUNS"] = _runs.name

# Compute threads that spin while they wait take the cores from the tests beside them, up to forty times as long.
# Read when torch is imported, here and in the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("stoker", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("stoker")
