"""Opening what a person hands over: plain or compressed, any encoding, in blocks that end at a line."""

from __future__ import annotations

import codecs
import importlib
import io
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from stoker.errors import UserError

BLOCK_BYTES = 1 << 22
"""How much is read at once. Large enough that the work per block vanishes, small enough to stay in memory."""

OVERLAP_BYTES = 1 << 13
"""How much of a line longer than a block is looked at twice, so that no message is cut in two."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program or library"),
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3", "a database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"LPKSHHRH", "a binary systemd journal (print it with `journalctl --file`)"),
)

_ZSTD_MODULES = ("compression.zstd", "backports.zstd", "zstandard", "pyzstd")


def open_log(name: str) -> BinaryIO:
    """Open a log by its path, or the standard input for `-`, and look through compression.

    Raises:
        UserError: The file does not exist, is a directory, is empty, or is not text.
    """
    if name == "-":
        return _look_through(sys.stdin.buffer, "the standard input")
    path = Path(name)
    if path.is_dir():
        raise UserError(
            f"{name} is a directory: name one log file in it, or pipe them all: cat {name}/*.log | stoker doctor log -"
        )
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise UserError(f"the file does not exist: {name} (write - to read the standard input)") from None
    except OSError as problem:
        raise UserError(f"{name} cannot be read: {problem.strerror or problem}") from None
    return _look_through(stream, name)


def _look_through(raw: BinaryIO, name: str) -> BinaryIO:
    """Unwrap gzip, bzip2, xz, zstd and UTF-16; refuse what is empty or no text."""
    stream = io.BufferedReader(cast(Any, raw), BLOCK_BYTES) if not isinstance(raw, io.BufferedReader) else raw
    head = stream.peek(1 << 12)[: 1 << 12]
    unpacked = _unpack(stream, head, name)
    if unpacked is not stream:
        return _look_through(unpacked, f"the content of {name}")
    if not head:
        raise UserError(f"{name} is empty: there is nothing to diagnose")
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise UserError(f"{name} is {what}, not a text log: paste the text itself")
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and head.count(0) > len(head) / 8:
        return cast(BinaryIO, _Transcoded(stream))
    if _is_binary(head):
        raise UserError(f"{name} is not text: hand over the log as a text file")
    return stream


def _unpack(stream: io.BufferedReader, head: bytes, name: str) -> BinaryIO:
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return cast(BinaryIO, _Forgiving(gzip.GzipFile(fileobj=stream)))
    if head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
        import bz2

        return cast(BinaryIO, _Forgiving(bz2.BZ2File(stream)))
    if head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return cast(BinaryIO, _Forgiving(lzma.LZMAFile(stream)))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return cast(BinaryIO, _Forgiving(_open_zstd(stream, name)))
    return stream


def _open_zstd(stream: io.BufferedReader, name: str) -> Any:
    for module_name in _ZSTD_MODULES:
        with suppress(ImportError):
            module = importlib.import_module(module_name)
            if module_name == "zstandard":
                return module.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
            return module.ZstdFile(stream)
    raise UserError(f"{name} is compressed with zstd and no zstd library is here: zstd -dc FILE | stoker doctor log -")


def _is_binary(head: bytes) -> bool:
    """More control characters than any text has. Some NUL is normal: a crash leaves them in a syslog."""
    control = sum(head.count(value) for value in (*range(1, 8), *range(14, 27), 28, 29, 30, 31, 127))
    return control > len(head) * 0.05 or head.count(0) > len(head) * 0.3


class _Forgiving(io.RawIOBase):
    """A decompressor whose damaged or cut tail ends the text instead of raising."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ended:
            return 0
        try:
            data = getattr(self._inner, "read1", self._inner.read)(len(buffer))
        except Exception:  # each library has its own error; what was read so far is still worth reading
            self._ended = True
            return 0
        buffer[: len(data)] = data
        return len(data)


class _Transcoded(io.RawIOBase):
    """UTF-16, as PowerShell writes it, read as UTF-8."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            data = self._inner.read(1 << 16)
            self._pending = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        count = min(len(buffer), len(self._pending))
        buffer[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count


def read_blocks(stream: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield blocks that end at a line, and how many bytes at their start were already in the block before.

    A line longer than a block comes in pieces that overlap by `OVERLAP_BYTES`.
    """
    carried, repeated = b"", 0
    while data := stream.read(size):
        block = carried + data
        cut = block.rfind(b"\n") + 1
        if cut > repeated:
            yield block[:cut], repeated
            carried, repeated = block[cut:], 0
        elif len(block) >= size:
            yield block, repeated
            carried = block[-OVERLAP_BYTES:]
            repeated = len(carried)
        else:
            carried = block
    if len(carried) > repeated:
        yield carried, repeated
