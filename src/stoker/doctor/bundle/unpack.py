"""Opens a bundle that came from anywhere: nothing in it is trusted."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from stoker.doctor.bundle.form import FOLDER, MACHINE, MANIFEST, RUN, Manifest, manifest_of
from stoker.errors import UserError

MAX_FILES = 20_000
MAX_BYTES = 1 << 30
"""Of all files together, unpacked. What `collect` writes is a few megabytes."""
MAX_NAME = 400


@dataclass(frozen=True)
class Bundle:
    """An opened bundle.

    Attributes:
        name: The file it came from.
        folder: Where it was unpacked.
        manifest: What it says of itself.
    """

    name: str
    folder: Path
    manifest: Manifest

    @property
    def machine(self) -> Path:
        """The recorded tree."""
        return self.folder / MACHINE

    @property
    def run(self) -> Path | None:
        """The run folder, if there is one."""
        return self.folder / RUN if (self.folder / RUN).is_dir() else None


def is_archive(path: Path) -> bool:
    """Whether a file looks like something that `collect` wrote: a gzip."""
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except OSError:
        return False


@contextmanager
def opened(path: Path) -> Generator[Bundle]:
    """Unpack a bundle into a folder that is removed afterwards.

    Raises:
        UserError: It is no bundle, is damaged or cut off, or holds something that no bundle does.
    """
    with TemporaryDirectory(prefix="stoker-bundle-") as name:
        folder = Path(name)
        try:
            _unpack(path, folder)
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
            raise UserError(f"{path} is no whole bundle ({_reason(error)}): copy or collect it again") from None
        except OSError as error:
            raise UserError(f"{path} cannot be unpacked: {error.strerror or error}") from None
        manifest = folder / MANIFEST
        if not manifest.is_file():
            raise UserError(f"{path} is no bundle of `stoker doctor collect`: it holds no {FOLDER}/{MANIFEST}")
        yield Bundle(path.name, folder, manifest_of(manifest.read_text("utf-8", "replace"), str(path)))


def _reason(error: Exception) -> str:
    text = str(error).rstrip(".") or type(error).__name__
    return "it is cut off" if isinstance(error, EOFError) else text


def _unpack(path: Path, folder: Path) -> None:
    """Write the regular files of the archive; refuses everything else instead of passing over it.

    Raises:
        UserError: A member would be written elsewhere, is a link or device, or there is too much.
        OSError, tarfile.TarError, EOFError, zlib.error: The archive is damaged.
    """
    total = 0
    with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        for number, member in enumerate(archive, 1):
            total += member.size
            if number > MAX_FILES or total > MAX_BYTES:
                raise UserError(
                    f"{path} unpacks to more than {MAX_FILES} files or {MAX_BYTES >> 30} GiB, which no bundle does: "
                    "it was not unpacked further"
                )
            place = _place(path, member)
            if member.isdir():
                continue
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(member)
            assert content is not None  # it is a regular file
            target.write_bytes(content.read())
        while total <= MAX_BYTES and (rest := packed.read(1 << 20)):  # to its end, where the checksum stands
            total += len(rest)


def _place(path: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """Where a member belongs below the folder.

    Raises:
        UserError: Nowhere.
    """
    place = PurePosixPath(member.name)
    shown = member.name[:80].encode("ascii", "backslashreplace").decode()
    if not (member.isreg() or member.isdir()) or member.sparse is not None:
        raise UserError(f"{path} holds {shown}, which is no plain file: no bundle does, so it was not unpacked")
    outside = place.is_absolute() or ".." in place.parts or "\0" in member.name
    if outside or len(member.name) > MAX_NAME or place.parts[:1] != (FOLDER,):
        raise UserError(
            f"{path} holds {shown}, which lies outside of {FOLDER}/: no bundle does, so it was not unpacked"
        )
    return PurePosixPath(*place.parts[1:])
