"""The source that is a copied tree: a recording, files from a bundle, or a folder made with `cp -r`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar, cast

from stoker.errors import UserError
from stoker.host.live import list_folder, read_link, read_regular
from stoker.host.source import COMMAND_SECONDS, Output, Unreadable, command_name

FORMAT = 1
"""Of `.stoker/index.json`. A newer one cannot be read."""
FOLDER = ".stoker"
Found = TypeVar("Found")

MAX_LINKS = 40
"""How many symbolic links one path may go through, as in Linux itself."""


def _strings() -> dict[str, str]:
    return {}


@dataclass
class Index:
    """What is known of a tree beside its files: the content of `.stoker/index.json`.

    Attributes:
        format: `FORMAT`.
        recorded: Whether a `Recording` made it: then what is not in it was never asked for.
        taken: When it was read, ISO 8601.
        unreadable: Kind and reason by what was asked: `read:/proc/x`, `list:/x`, `link:/x`, `open:/dev/x`,
            `run:NAME`, `environment:`.
        lists: Names in a folder, where they differ from those in the tree.
        links: What symbolic links say, so that the tree itself needs none.
        opens: Device nodes that could be opened.
        codes: Exit codes of commands, where not 0.
        environment: Variables; None if they were not read.
    """

    format: int = FORMAT
    recorded: bool = False
    taken: str = ""
    unreadable: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    lists: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    links: dict[str, str] = field(default_factory=_strings)
    opens: list[str] = field(default_factory=list[str])
    codes: dict[str, int] = field(default_factory=dict[str, int])
    environment: dict[str, str] | None = None

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


def read_index(root: Path) -> Index:
    """The index of a tree; an empty one if it has none.

    Raises:
        UserError: It is of a newer format, or is no index.
    """
    path = root / FOLDER / "index.json"
    text = read_regular(path)
    if isinstance(text, Unreadable):
        if text.kind == "missing":
            return Index()
        raise UserError(f"{path}: {text.reason}")
    try:
        content = json.loads(text)
        if content.get("format", FORMAT) > FORMAT:
            raise UserError(
                f"{path}: written in format {content['format']}, and this stoker knows {FORMAT}: use a newer stoker"
            )
        return _index_of(content)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: this is no index of a recorded machine: record it again") from None


def _index_of(content: Mapping[str, Any]) -> Index:
    """Checked only as far as a wrong type would raise later: a bundle comes from elsewhere."""
    default = Index()
    values: dict[str, Any] = {}
    for one in fields(Index):
        value = content.get(one.name, getattr(default, one.name))
        wanted = (dict, type(None)) if one.name == "environment" else type(getattr(default, one.name))
        if not isinstance(value, wanted):
            raise TypeError(one.name)
        values[one.name] = value
    index = Index(**values)
    index.unreadable = {key: (str(kind), str(reason)) for key, (kind, reason) in index.unreadable.items()}
    index.lists = {key: [str(name) for name in names] for key, names in index.lists.items()}
    index.links = {key: str(target) for key, target in index.links.items()}
    index.codes = {key: int(code) for key, code in index.codes.items()}
    if index.environment is not None:
        index.environment = {name: str(value) for name, value in index.environment.items()}
    return index


class Tree:
    """A copied tree. Its symbolic links are followed inside it only, wherever they point.

    Raises:
        UserError: `root` is no folder, or its index cannot be read.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"{root}: not a folder; give the root of a copied or recorded machine")
        self._root = root
        self._index = read_index(root)

    def read(self, path: str, *, tail: bool = False) -> str | Unreadable:
        """See `Source.read`."""
        return self._known("read", path) or self._absent(path, read_regular(self._inside(path), tail=tail))

    def names(self, path: str) -> tuple[str, ...] | Unreadable:
        """See `Source.names`."""
        if path in self._index.lists:
            return tuple(self._index.lists[path])
        if known := self._known("list", path):
            return known
        found = self._absent(path, list_folder(self._inside(path)))
        return found if isinstance(found, Unreadable) else tuple(name for name in found if name != FOLDER)

    def link(self, path: str) -> str | Unreadable:
        """See `Source.link`."""
        if path in self._index.links:
            return self._index.links[path]
        pure = PurePosixPath(path)
        return self._known("link", path) or self._absent(path, read_link(self._inside(str(pure.parent)) / pure.name))

    def can_open(self, path: str) -> Literal[True] | Unreadable:
        """See `Source.can_open`. A tree holds no device nodes, so only a recorded answer counts."""
        if path in self._index.opens:
            return True
        return self._known("open", path) or Unreadable("unrecorded", "whether it opens is not in the copy")

    def environment(self) -> Mapping[str, str] | Unreadable:
        """See `Source.environment`."""
        if self._index.environment is not None:
            return self._index.environment
        return self._known("environment", "") or Unreadable("unrecorded", "the environment is not in the copy")

    def taken(self) -> str:
        """See `Source.taken`."""
        return self._index.taken

    def run(
        self, argv: Sequence[str], *, timeout: float = COMMAND_SECONDS, name: str = "", script: str = ""
    ) -> Output | Unreadable:
        """See `Source.run`. Nothing is run."""
        del timeout, script
        name = name or command_name(argv)
        if known := self._known("run", name):
            return known
        out = read_regular(self._root / FOLDER / "commands" / f"{name}.txt")
        err = read_regular(self._root / FOLDER / "commands" / f"{name}.err")
        if isinstance(out, Unreadable) and isinstance(err, Unreadable):
            return Unreadable("unrecorded", f"the output of `{' '.join(argv[:2])}` is not in the copy")
        return Output(
            "" if isinstance(out, Unreadable) else out,
            "" if isinstance(err, Unreadable) else err,
            self._index.codes.get(name, 0),
        )

    def _known(self, what: str, path: str) -> Unreadable | None:
        found = self._index.unreadable.get(f"{what}:{path}")
        return Unreadable(cast(Any, found[0]), found[1]) if found else None

    def _absent(self, path: str, found: Found | Unreadable) -> Found | Unreadable:
        """What is not in the copy is missing on the machine only if its part of the machine was copied."""
        if not isinstance(found, Unreadable) or found.kind != "missing":
            return found
        top = PurePosixPath(path).parts[1:2]
        if self._index.recorded or not top or not (self._root / top[0]).is_dir():
            return Unreadable("unrecorded", "not in the copy")
        return found

    def _inside(self, path: str) -> Path:
        """The place of `path` in the tree, its links resolved as if the tree were the whole machine."""
        todo = list(reversed(PurePosixPath(path).parts[1:]))
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            target = read_link(self._root.joinpath(*done, part))
            if isinstance(target, Unreadable) or links >= MAX_LINKS:
                done.append(part)
                continue
            links += 1
            pure = PurePosixPath(target)
            if pure.is_absolute():
                done = []
            todo.extend(reversed([piece for piece in pure.parts if piece != "/"]))
        return self._root.joinpath(*done)
