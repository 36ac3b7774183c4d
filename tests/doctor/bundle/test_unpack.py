"""Archives that are no bundles, damaged, or meant to do harm: one sentence each, and nothing written elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.doctor.bundle import unpack
from stoker.doctor.bundle.form import FOLDER, Manifest
from stoker.doctor.examine import examine
from stoker.errors import UserError


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


MANIFEST = member(f"{FOLDER}/manifest.json", Manifest().to_json().encode())


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught, unpack.opened(path):
        pass
    assert len(caught.value.mistakes) == 1
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_whole_bundle_is_opened_and_removed_again(tmp_path: Path) -> None:
    path = pack(tmp_path / "b.tar.gz", MANIFEST, member(f"{FOLDER}/machine/etc/x", b"1"))
    with unpack.opened(path) as bundle:
        assert (bundle.machine / "etc" / "x").read_text() == "1"
        assert bundle.run is None
        folder = bundle.folder
    assert not folder.exists()


@pytest.mark.parametrize(
    "evil",
    [
        member("../escaped", b"x"),
        member(f"{FOLDER}/../../escaped", b"x"),
        member("/tmp/stoker-escaped", b"x"),
        member("elsewhere/x", b"x"),
        member(f"{FOLDER}/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member(f"{FOLDER}/hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member(f"{FOLDER}/fifo", type=tarfile.FIFOTYPE),
        member(f"{FOLDER}/disk", type=tarfile.BLKTYPE),
        member(f"{FOLDER}/" + "x" * 500, b"x"),
    ],
    ids=["dots", "dots inside", "absolute", "other folder", "symlink", "hard link", "fifo", "device", "long name"],
)
def test_a_member_that_no_bundle_has_is_refused(evil: tuple[tarfile.TarInfo, bytes], tmp_path: Path) -> None:
    said = refused(pack(tmp_path / "b.tar.gz", MANIFEST, evil))
    assert "no bundle does, so it was not unpacked" in said
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/stoker-escaped").exists()


def test_a_decompression_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_BYTES", 1 << 20)
    path = pack(tmp_path / "b.tar.gz", MANIFEST, member(f"{FOLDER}/zeros", bytes(1 << 21)))
    assert path.stat().st_size < 10_000
    assert "unpacks to more than" in refused(path)
    monkeypatch.setattr(unpack, "MAX_FILES", 3)
    assert "unpacks to more than" in refused(pack(path, *(member(f"{FOLDER}/{n}") for n in range(5))))


NOISE = member(f"{FOLDER}/x", bytes(range(256)) * 40)


def damaged(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-30])
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: cut(pack(path, MANIFEST, NOISE)), "is no whole bundle"),
        (lambda path: damaged(pack(path, MANIFEST, NOISE)), "is no whole bundle"),
        (lambda path: path.write_bytes(gzip.compress(b"just a log\n" * 100)) and path, "is no whole bundle"),
        (lambda path: pack(path, member(f"{FOLDER}/x")), "holds no stoker-bundle/manifest.json"),
        (lambda path: pack(path, member(f"{FOLDER}/manifest.json", b"[]")), "its manifest cannot be read"),
        (lambda path: pack(path, member(f"{FOLDER}/manifest.json", b'{"format": 0}')), "an older stoker wrote"),
        (lambda path: pack(path, member(f"{FOLDER}/manifest.json", b'{"format": 99}')), "a newer stoker wrote"),
        (lambda path: path.write_bytes(b"\xff\xd8\xff\xe0JFIF") and path, "is no whole bundle"),
        (lambda path: path.write_bytes(b"") == 0 and path, "is no whole bundle"),
    ],
    ids=["cut", "damaged", "gzip", "no manifest", "no object", "old", "new", "jpeg", "empty"],
)  # fmt: skip
def test_what_is_no_bundle_is_answered_with_a_sentence(
    make: Callable[[Path], Path], words: str, tmp_path: Path
) -> None:
    assert words in refused(make(tmp_path / "b.tar.gz"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_answered(tmp_path: Path, data: bytes, packed: bool) -> None:
    path = tmp_path / "any.tar.gz"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UserError), unpack.opened(path):
        pass


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_manifest_is_answered(tmp_path: Path, value: object) -> None:
    content = {"format": 1, "masked": value, "run_alive": value, "run_silent": value, "cut": value, "taken": value}
    path = pack(tmp_path / "any.tar.gz", member(f"{FOLDER}/manifest.json", json.dumps(content).encode()))
    with unpack.opened(path) as bundle:
        assert isinstance(bundle.manifest.masked, dict)


@pytest.mark.parametrize(
    ("things", "words"),
    [
        (["none"], "there is no file or folder none"),
        (["a.log"], "if it is a log: stoker doctor log a.log"),
        (["tree"], "stoker doctor --root tree"),
        (["empty"], "no run folder"),
        (["empty", "a.log"], "one run folder at a time"),
    ],
)
def test_other_things_are_answered_with_what_to_do(
    things: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "tree" / ".stoker").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as caught:
        examine([Path(thing) for thing in things], "en")
    assert words in str(caught.value)
    assert len(caught.value.mistakes) == len(things)
