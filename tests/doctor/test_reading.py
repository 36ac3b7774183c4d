"""Opening and cutting of what a person hands over."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.doctor.log import diagnose
from stoker.doctor.reading import open_log, read_blocks
from stoker.errors import UserError

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
ZSTD_MAGIC = bytes.fromhex("28b52ffd")


def write(folder: Path, content: bytes, name: str = "run.log") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        ECC.encode(),
        ECC.replace("\n", "\r\n").encode(),
        gzip.compress(ECC.encode()),
        bz2.compress(ECC.encode()),
        lzma.compress(ECC.encode()),
        gzip.compress(gzip.compress(ECC.encode())),
        ECC.encode("utf-16"),
        b"\xef\xbb\xbf" + ECC.encode(),
        b"\xff\xfe\xfa broken \n" + ECC.encode(),
        b"\x00" * 40 + b"\n" + (b"kernel: fine\n" * 20) + ECC.encode(),
        b"\x1b[31mRuntimeError: CUDA error: \x1b[1muncorrectable\x1b[0m ECC error encountered\x1b[0m\n",
        b"  3%|3   | 1/60 [00:01<00:59]\r  5%|5   | 3/60 [00:03<00:57]\r" + ECC.encode(),
        b"x" * 10_000_000 + ECC.encode() + b"y" * 10_000_000,
    ],
    ids=[
        "plain",
        "crlf",
        "gzip",
        "bzip2",
        "xz",
        "twice",
        "utf-16",
        "bom",
        "broken",
        "nul",
        "ansi",
        "progress",
        "long",
    ],
)
def test_the_message_is_found_in_any_wrapping(tmp_path: Path, content: bytes) -> None:
    findings = diagnose(write(tmp_path, content)).findings
    assert [finding.cause for finding in findings] == ["uncorrectable-ecc-error"]


def test_a_cut_gzip_gives_what_was_read(tmp_path: Path) -> None:
    lines = ECC + "".join(f"step {number} of the run went well\n" for number in range(20_000))
    cut = gzip.compress(lines.encode())[:-5000]
    assert [finding.cause for finding in diagnose(write(tmp_path, cut)).findings] == ["uncorrectable-ecc-error"]


def test_evidence_is_quoted_as_it_stands(tmp_path: Path) -> None:
    line = "\x1b[31m[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\x1b[0m"
    (finding,) = diagnose(write(tmp_path, f"start\n{line}\nend\n".encode())).findings
    assert [(item.line, item.text) for item in finding.evidence] == [(2, line)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(200), "JPEG picture"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "PNG picture"),
        (bytes(range(1, 9)) * 100, "is not text"),
        (gzip.compress(b""), "is empty"),
    ],
    ids=["empty", "jpeg", "png", "binary", "empty gzip"],
)
def test_what_is_no_log_is_refused_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        diagnose(write(tmp_path, content))
    assert len(refused.value.mistakes) == 1


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        open_log(str(tmp_path / "none.log"))
    with pytest.raises(UserError, match="is a directory"):
        open_log(str(tmp_path))


def compressed_with_zstd(data: bytes) -> bytes:
    for name in ("compression.zstd", "zstandard", "backports.zstd", "pyzstd"):
        try:
            return importlib.import_module(name).compress(data)
        except ImportError:
            continue
    pytest.skip("no zstd library is installed (the extra `logs` brings one): reading zstd is not tested")


@pytest.mark.parametrize("frames", [1, 3])
def test_zstd_is_read(frames: int, tmp_path: Path) -> None:
    """Also of several frames, as `zstd` leaves them when files are joined."""
    lines = ("step of a run that goes well\n" * 5000).encode()
    content = b"".join(compressed_with_zstd(lines) for _ in range(frames - 1)) + compressed_with_zstd(
        lines + ECC.encode()
    )
    answer = diagnose(write(tmp_path, content, "run.log.zst"))
    assert [(one.cause, one.evidence[0].line) for one in answer.findings] == [
        ("uncorrectable-ecc-error", 5000 * frames + 1)
    ]


def test_a_cut_zstd_gives_what_was_read(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = ECC + "".join(f"step {rng.random()} of the run went well\n" for _ in range(100_000))
    cut = compressed_with_zstd(lines.encode())[:-5000]
    assert [finding.cause for finding in diagnose(write(tmp_path, cut)).findings] == ["uncorrectable-ecc-error"]


def test_zstd_without_a_library_is_answered_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.doctor.reading._ZSTD_MODULES", ("no_such_zstd_module",))
    with pytest.raises(UserError, match=r"no zstd library is here.*zstd -dc FILE \| stoker doctor log -"):
        diagnose(write(tmp_path, ZSTD_MAGIC + bytes(64)))


@pytest.mark.parametrize(
    "line", ["x" * 10_000_000, "é\x1b[31m" * 1_000_000, "\r" * 10_000_000, "NCCL WARN " * 1_000_000]
)
def test_a_line_of_ten_megabytes_does_not_hide_what_follows(line: str, tmp_path: Path) -> None:
    content = gzip.compress((line + "\r\n" + ECC).encode(), 1)
    answer = diagnose(write(tmp_path, content))
    assert [(one.cause, one.evidence[0].line) for one in answer.findings] == [("uncorrectable-ecc-error", 2)]


@given(st.binary(max_size=400), st.integers(min_value=8, max_value=64))
def test_blocks_together_are_the_log(data: bytes, size: int) -> None:
    blocks = list(read_blocks(io.BytesIO(data), size))
    assert b"".join(block[repeated:] for block, repeated in blocks) == data
