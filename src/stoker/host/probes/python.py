"""Python environments: the one that runs this, the active virtual or conda environment, and the `python3` on PATH."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib import resources

from stoker.host.plain import from_plain
from stoker.host.probing import Notes, first_line
from stoker.host.source import Output, Source, Unreadable

SECONDS = 10.0


@dataclass(frozen=True)
class PythonEnvironment:
    """What is installed in one Python.

    Attributes:
        packages: Version by name, as folders of site-packages say; `conda` by conda's own records.
        duplicates: Packages that are there in two versions.
        broken: Packages whose installation was not finished.
        leftovers: Folders that an interrupted pip left behind.
        torch: Version of torch with its label, `torch_cuda` and `torch_hip` what it was built for.
    """

    executable: str = ""
    version: str = ""
    prefix: str = ""
    packages: dict[str, str] | None = None
    conda: dict[str, str] | None = None
    duplicates: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    torch: str = ""
    torch_cuda: str = ""
    torch_hip: str = ""

    def package(self, name: str) -> str:
        """The version of a package; empty if it is not there."""
        return (self.packages or {}).get(name, "")


@dataclass(frozen=True)
class Python:
    """All environments found, each once."""

    environments: tuple[PythonEnvironment, ...] = ()

    def with_torch(self) -> tuple[PythonEnvironment, ...]:
        """Those that have torch."""
        return tuple(one for one in self.environments if one.torch or one.package("torch"))


def read(source: Source, notes: Notes) -> Python:
    """Read the section."""
    environ = source.environment()
    variables = {} if isinstance(environ, Unreadable) else environ
    candidates = {"python_own": sys.executable, "python_path": "python3"}
    for name, key in (("python_virtualenv", "VIRTUAL_ENV"), ("python_conda", "CONDA_PREFIX")):
        if prefix := variables.get(key, ""):
            candidates[name] = f"{prefix}/bin/python"
    script = resources.files("stoker.host").joinpath("scripts", "python_environment.py").read_text(encoding="utf-8")
    found: dict[str, PythonEnvironment] = {}
    for name, executable in candidates.items():
        one = parse_environment(source.run([executable, "-"], name=name, script=script, timeout=SECONDS))
        if isinstance(one, str):
            notes.note(f"environments.{name}", one)
        else:
            found.setdefault(one.prefix, one)
    if not found:
        notes.note("environments", "no Python could be asked")
    return Python(tuple(found.values()))


def parse_environment(found: Output | Unreadable) -> PythonEnvironment | str:
    """What `scripts/python_environment.py` prints; the reason if it printed nothing that can be read."""
    if isinstance(found, Unreadable):
        return found.reason
    try:
        return from_plain(PythonEnvironment, json.loads(found.text))
    except (ValueError, RecursionError):
        return first_line(found.errors) or "it did not answer"
