"""Fuzz what the doctor reads from strangers, guided by coverage: `python scripts/fuzz_doctor.py [WHAT] [-- OPTIONS]`.

WHAT is `log` (the log reader), `masking`, `bundle`, `dump` (flight recorder) or `ras`; OPTIONS are libFuzzer's, such
as `-max_total_time=60`. Needs atheris (`pip install atheris`), which has no build for every Python and platform; the
tests fuzz the same functions with hypothesis.
"""

from __future__ import annotations

import contextlib
import gzip
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

try:
    import atheris
except ImportError as problem:
    sys.exit(f"atheris cannot be had here ({problem}): pip install atheris, or run pytest tests/doctor -k any")

with atheris.instrument_imports(include=["stoker"]):
    from stoker.doctor.bundle import unpack
    from stoker.doctor.bundle.masking import Masker
    from stoker.doctor.hang import flight, ras
    from stoker.doctor.log import diagnose_blocks
    from stoker.doctor.render import render_text
    from stoker.errors import UserError

_folder = tempfile.TemporaryDirectory(prefix="stoker-fuzz-")
FILE = Path(_folder.name) / "input"


def log(data: bytes) -> None:
    """Any bytes get an answer, which can be shown."""
    render_text(diagnose_blocks([(data, 0)] if data else []), "en")


def masking(data: bytes) -> None:
    """Any text is masked, and lines stay lines."""
    text = data.decode("utf-8", "replace")
    masker = Masker()
    masker.learn(text)
    masked = masker.mask(text)
    if "-----BEGIN" not in text and masked.count("\n") != text.count("\n"):
        raise AssertionError("lines were lost")


def bundle(data: bytes) -> None:
    """Any archive is opened or refused with a sentence."""
    FILE.write_bytes(gzip.compress(data, 1))
    with contextlib.suppress(UserError), unpack.opened(FILE):
        pass


def dump(data: bytes) -> None:
    """Any dump is read or refused with a sentence, and compared."""
    FILE.write_bytes(data)
    found = flight.read_dump(FILE, 0)
    if isinstance(found, flight.Dump) and found.entries:
        flight.compare([found])


def ras_answer(data: bytes) -> None:
    """Any answer is read."""
    status = ras.read_status(data.decode("utf-8", "replace"))
    ras.behind(status, status)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "log": log, "masking": masking, "bundle": bundle, "dump": dump, "ras": ras_answer,
}  # fmt: skip


def main() -> None:
    """Fuzz until told to stop."""
    words = sys.argv[1:]
    what = words.pop(0) if words and words[0] in TARGETS else "log"
    atheris.Setup([sys.argv[0], *(word for word in words if word != "--")], TARGETS[what])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
