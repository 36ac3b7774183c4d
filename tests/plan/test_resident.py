"""What a forked process would hold had it imported everything itself."""

from __future__ import annotations

import pytest

from stoker.plan.trace.resident import SMAPS, read_pages, resident

SAMPLE = """\
7f10a0000000-7f10a0200000 r-xp 00000000 08:01 1234                       /usr/lib/a library.so
Size:               2048 kB
Rss:                 100 kB
Pss:                  50 kB
Anonymous:             4 kB
VmFlags: rd ex mr mw me
7f10a0200000-7f10a0300000 rw-p 00200000 08:01 1234                       /usr/lib/a library.so
Rss:                   8 kB
Anonymous:             8 kB
7f10b0000000-7f10b0100000 rw-p 00000000 00:00 0
Rss:                  40 kB
Anonymous:            40 kB
"""


def test_pages_by_file() -> None:
    pages = read_pages(SAMPLE)
    assert pages.anonymous == 52 * 1024
    assert pages.files == {"/usr/lib/a library.so": 96 * 1024, "": 0}


def test_what_the_parent_had_mapped_is_held() -> None:
    pages = read_pages(SAMPLE)
    assert resident({}, pages) == (52 + 96) * 1024
    assert resident({"/usr/lib/a library.so": 500 * 1024, "other": 1}, pages) == (52 + 500) * 1024 + 1


def test_this_process_adds_up() -> None:
    pages = read_pages(SMAPS.read_text())
    status = dict(line.split(":", 1) for line in (SMAPS.parent / "status").read_text().splitlines())
    assert resident({}, pages) == pytest.approx(int(status["VmRSS"].split()[0]) * 1024, rel=0.02)
