"""The source that writes down whatever is read through it, as a tree that `Tree` reads again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from stoker.host.source import COMMAND_SECONDS, Output, Source, Unreadable, command_name
from stoker.host.tree import FOLDER, Index


class Recording:
    """Asks `source` and keeps every answer below `folder`. Call `finish` at the end: it writes the index.

    Probes may ask from several threads.

    >>> recording = Recording(Live(), Path("bundle"))  # doctest: +SKIP
    >>> read_snapshot(recording)  # doctest: +SKIP
    >>> recording.finish()  # doctest: +SKIP
    """

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._index = Index(recorded=True, taken=source.taken())
        self._lock = threading.Lock()

    def read(self, path: str, *, tail: bool = False) -> str | Unreadable:
        """See `Source.read`."""
        found = self._source.read(path, tail=tail)
        with self._lock:
            if not self._failed("read", path, found):
                self._write(PurePosixPath(path).relative_to("/"), str(found))
        return found

    def names(self, path: str) -> tuple[str, ...] | Unreadable:
        """See `Source.names`."""
        found = self._source.names(path)
        with self._lock:
            if not isinstance(found, Unreadable):
                self._index.lists[path] = list(found)
            else:
                self._failed("list", path, found)
        return found

    def link(self, path: str) -> str | Unreadable:
        """See `Source.link`."""
        found = self._source.link(path)
        with self._lock:
            if not self._failed("link", path, found):
                self._index.links[path] = str(found)
        return found

    def can_open(self, path: str) -> Literal[True] | Unreadable:
        """See `Source.can_open`."""
        found = self._source.can_open(path)
        with self._lock:
            if not self._failed("open", path, found) and path not in self._index.opens:
                self._index.opens.append(path)
        return found

    def environment(self) -> Mapping[str, str] | Unreadable:
        """See `Source.environment`."""
        found = self._source.environment()
        with self._lock:
            if isinstance(found, Unreadable):
                self._failed("environment", "", found)
            else:
                self._index.environment = dict(found)
        return found

    def taken(self) -> str:
        """When the recording began."""
        return self._index.taken

    def run(
        self, argv: Sequence[str], *, timeout: float = COMMAND_SECONDS, name: str = "", script: str = ""
    ) -> Output | Unreadable:
        """See `Source.run`."""
        found = self._source.run(argv, timeout=timeout, name=name, script=script)
        name = name or command_name(argv)
        with self._lock:
            if isinstance(found, Unreadable):
                self._failed("run", name, found)
                return found
            place = PurePosixPath(FOLDER, "commands")
            self._write(place / f"{name}.txt", found.text)
            if found.errors:
                self._write(place / f"{name}.err", found.errors)
            if found.code:
                self._index.codes[name] = found.code
        return found

    def finish(self) -> None:
        """Write the index; what was recorded can be read as a `Tree` from now on."""
        with self._lock:
            self._write(PurePosixPath(FOLDER, "index.json"), self._index.to_json())

    def _failed(self, what: str, path: str, found: object) -> bool:
        if isinstance(found, Unreadable):
            self._index.unreadable[f"{what}:{path}"] = (found.kind, found.reason)
        return isinstance(found, Unreadable)

    def _write(self, place: PurePosixPath, text: str) -> None:
        if ".." in place.parts:
            raise ValueError(f"a probe asked for a path with `..`: {place}")
        path = self._folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
