"""Prints what is installed in the Python that runs it, as JSON; torch is not imported, which can take seconds or fail.

It imports nothing of stoker and keeps to Python 3.8. Only names of folders are read: that is a hundred times as fast
as all metadata.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Dict, List  # 3.8 knows no dict[...] in annotations

FOLDER = re.compile(r"(.+?)-([^-]+?)(?:-py[\d.]+)?\.(dist-info|egg-info)")


def listing(folder: Path) -> List[str]:
    """Names in a folder; none if it cannot be listed."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def text(path: Path) -> str:
    """A small file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def unfinished(folder: Path) -> bool:
    """Whether pip began this installation and did not write down what it installed."""
    names = listing(folder)
    return (
        folder.suffix == ".dist-info"
        and "INSTALLER" in names
        and "RECORD" not in names
        and (text(folder / "INSTALLER").strip() == "pip")
    )


def built_for(version_py: str) -> Dict[str, str]:
    """`__version__`, `cuda` and `hip` of torch/version.py."""
    found = {}
    for name in ("__version__", "cuda", "hip"):
        match = re.search(r"^" + name + r"\b[^=\n]*= *'([^']+)'", version_py, re.MULTILINE)
        if match:
            found[name] = match.group(1)
    return found


def conda_packages() -> Dict[str, str]:
    """Version and build by name, as conda wrote them down."""
    found = {}
    for name in listing(Path(sys.prefix, "conda-meta")):
        match = re.fullmatch(r"(.+)-([^-]+)-([^-]+)\.json", name)
        if match:
            found[match.group(1)] = match.group(2) + " " + match.group(3)
    return found


def main() -> Dict[str, Any]:
    """The document."""
    packages: Dict[str, str] = {}
    duplicates: List[str] = []
    broken: List[str] = []
    leftovers: List[str] = []
    version_py = ""
    for place in dict.fromkeys(os.path.realpath(path or ".") for path in sys.path):
        here: Dict[str, str] = {}
        for name in listing(Path(place)):
            if name.startswith("~"):
                leftovers.append(str(Path(place, name)))
            match = FOLDER.fullmatch(name)
            if match is None:
                continue
            package, version = re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2)
            if here.get(package, version) != version:
                duplicates.append(f"{package} {here[package]} and {version} in {place}")
            here[package] = version
            packages.setdefault(package, version)
            if unfinished(Path(place, name)):
                broken.append(f"{package} {version} in {place} has no RECORD")
        version_py = version_py or text(Path(place, "torch", "version.py"))
    torch = built_for(version_py)
    return {
        "executable": sys.executable,
        "version": "{}.{}.{}".format(*sys.version_info[:3]),
        "prefix": sys.prefix,
        "packages": packages,
        "conda": conda_packages(),
        "duplicates": duplicates,
        "broken": broken,
        "leftovers": leftovers,
        "torch": torch.get("__version__", ""),
        "torch_cuda": torch.get("cuda", ""),
        "torch_hip": torch.get("hip", ""),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
