"""How much memory a process would hold had it imported everything itself, asked in one that was forked.

A fork keeps the anonymous pages of its parent but not those of mapped files, such as the libraries of torch: they
come back one by one as they are used, and some never do. Those that the parent held are counted as held.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SMAPS = Path("/proc/self/smaps")


class Pages(NamedTuple):
    """Physical memory of a process in bytes.

    Attributes:
        anonymous: In no file, or changed since it was read.
        files: By the name of the mapped file.
    """

    anonymous: int
    files: Mapping[str, int]


def read_pages(smaps: str) -> Pages:
    """Pages of a process as proc(5) lists them in `smaps`."""
    anonymous, files, name = 0, dict[str, int](), ""
    for line in smaps.splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):  # a mapping: addresses, permissions, offset, device, inode, name
            name = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) > 5 else ""
        elif first in ("Rss:", "Anonymous:"):
            nbytes = int(rest.split()[0]) * 1024
            held = nbytes if first == "Rss:" else -nbytes
            files[name] = files.get(name, 0) + held
            anonymous += nbytes if first == "Anonymous:" else 0
    return Pages(anonymous, files)


def resident(parent: Mapping[str, int], own: Pages) -> int:
    """Bytes that a process with these pages would hold had it not been forked from one with such files.

    >>> resident({"libtorch.so": 300, "libc.so": 2}, Pages(400, {"libtorch.so": 30, "libblas.so": 5}))
    707
    """
    files = dict(parent)
    for name, nbytes in own.files.items():
        files[name] = max(nbytes, files.get(name, 0))
    return own.anonymous + sum(files.values())
