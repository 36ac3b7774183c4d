"""What a bundle consists of: one place for writing and for reading it.

A bundle is a tar.gz with one folder, `stoker-bundle/`:

| Name | Holds |
|---|---|
| `manifest.json` | a `Manifest` |
| `machine/` | the recorded tree: every file and command output that was read (`stoker.host.tree`) |
| `snapshot.json` | the same, understood |
| `run/` | the text files of the run folder, if one was named |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from stoker.errors import UserError

FORMAT = 1
"""Goes up when a reader of the old form would misread the new one."""
FOLDER = "stoker-bundle"
MANIFEST, MACHINE, SNAPSHOT, RUN = "manifest.json", "machine", "snapshot.json", "run"


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself.

    Attributes:
        format: `FORMAT`.
        stoker: The version that wrote it.
        taken: When, ISO 8601.
        root: Whether it was collected as root; much cannot be seen otherwise.
        masked: How often something of each kind was replaced.
        run_alive: Whether the run's process existed; None if unknown or no run was named.
        run_silent: Seconds since the run folder was last written to.
        cut: Files of which only the end was taken.
    """

    format: int = FORMAT
    stoker: str = ""
    taken: str = ""
    root: bool = False
    masked: Mapping[str, int] = field(default_factory=dict[str, int])
    run_alive: bool | None = None
    run_silent: float | None = None
    cut: tuple[str, ...] = ()

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps(asdict(self), indent=1) + "\n"


def manifest_of(text: str, name: str) -> Manifest:
    """Read a manifest.

    Raises:
        UserError: It is of another format, or none.
    """
    try:
        content: dict[str, Any] = json.loads(text)
        number = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{name} is no bundle of `stoker doctor collect`: its manifest cannot be read") from None
    if number != FORMAT:
        age = "a newer" if isinstance(number, int) and number > FORMAT else "an older"
        raise UserError(
            f"{name} is of format {number}, which {age} stoker wrote, and this one reads {FORMAT}: "
            "collect it again with this version, or read it with that one"
        )
    known = {one.name for one in fields(Manifest)}
    values = {key: value for key, value in content.items() if key in known}
    manifest = Manifest(**values)
    silent, alive = manifest.run_silent, manifest.run_alive
    return Manifest(
        format=FORMAT,
        stoker=str(manifest.stoker),
        taken=str(manifest.taken),
        root=manifest.root is True,
        masked={str(k): v for k, v in dict(manifest.masked).items() if isinstance(v, int)}
        if isinstance(manifest.masked, dict)
        else {},
        run_alive=alive if isinstance(alive, bool) else None,
        run_silent=float(silent) if isinstance(silent, int | float) else None,
        cut=tuple(map(str, manifest.cut)) if isinstance(manifest.cut, list | tuple) else (),
    )
