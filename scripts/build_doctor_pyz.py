"""Pack the doctor into one file that runs on a bare server: `python scripts/build_doctor_pyz.py [FILE]`.

It holds the rooms that the doctor needs and nothing that has to be installed; Python 3.11 or newer runs it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "stoker"
ROOMS = ("doctor", "facts", "host", "report")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.yaml", "*.j2", "templates", "build.py", "zh")
MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("doctor.pyz needs Python 3.11 or newer, this is %d.%d: try python3.11 or newer" % sys.version_info[:2])
from stoker.doctor.standalone import main

main()
"""


def build(target: Path) -> None:
    """Write the archive aside and rename it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        package = root / "stoker"
        package.mkdir(parents=True)
        for module in SOURCE.glob("*.py"):
            shutil.copy(module, package)
        for room in ROOMS:
            shutil.copytree(SOURCE / room, package / room, ignore=LEFT_OUT)
        (root / "__main__.py").write_text(MAIN)
        packed = Path(name) / "packed"
        zipapp.create_archive(root, packed, interpreter="/usr/bin/env python3", compressed=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.new")
        shutil.move(packed, aside)
        aside.chmod(0o755)
        aside.replace(target)


if __name__ == "__main__":
    wanted = Path(sys.argv[1] if len(sys.argv) > 1 else "doctor.pyz")
    build(wanted)
    sys.stdout.write(f"{wanted}: {wanted.stat().st_size / 1e6:.2f} MB; run it with python3 {wanted}\n")
