"""Says what is installed in the Python that runs it; torch is not imported, as that can take seconds or fail.

Runs by itself in other interpreters too, so it imports nothing of stoker and keeps to Python 3.8.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path


def probe() -> "dict[str, object]":
    """Python and package versions, and what torch was built with: `cuda 13.0`, `hip 7.2`, `cpu` or empty."""
    packages = {}
    build = ""
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if not name:
            continue
        packages.setdefault(name.lower().replace("_", "-"), distribution.version)
        if name.lower() == "torch":
            build = _torch_build(str(distribution.locate_file("torch/version.py")))
    version = "{}.{}".format(*sys.version_info[:2])
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        version += "t"
    return {"python": version, "packages": packages, "torch_build": build}


def _torch_build(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
    for kind in ("cuda", "hip"):
        match = re.search(rf"^{kind}\b[^=\n]*= *'([\d.]+)", text, re.MULTILINE)
        if match:
            return f"{kind} {match.group(1)}"
    return "cpu"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()))
