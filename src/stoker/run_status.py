"""RunStatus: what a run says of itself while it goes, and where on the machine it says so.

`stoker train` writes it, `stoker monitor` reads it; neither knows more of the other.
"""

from __future__ import annotations

from typing import Literal

RunState = Literal["starting", "running", "finished", "stopped", "failed", "killed"]
"""How a run stands. `killed`: its process is gone without a word; only who looks at it can say so."""
