"""No input may make a parser raise or hang."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.doctor.build import read_causes
from stoker.doctor.catalogue import load_catalogue
from stoker.doctor.lines import clean, is_command, origin_of, without_prefix
from stoker.doctor.log import diagnose, diagnose_blocks, diagnose_text
from stoker.doctor.prefilter import Automaton, ByTemplate, OneByOne
from stoker.doctor.render import render_text
from stoker.doctor.rules.memory import read_out_of_memory
from stoker.errors import UserError

LITERALS = [literal.decode() for literal in load_catalogue().literals]
SAMPLES = [
    sample if isinstance(sample, str) else sample["log"] for cause in read_causes() for sample in cause["positive"]
]


@st.composite
def nearly_logs(draw: st.DrawFn) -> str:
    """Text that is full of what the patterns look for: literals and cut samples between any characters."""
    parts = st.one_of(
        st.sampled_from(LITERALS),
        st.text(max_size=12),
        st.sampled_from(SAMPLES).flatmap(lambda s: st.integers(0, len(s)).map(lambda n: s[:n])),
        st.sampled_from(["\n", "\r", "\x1b[0m", " ", "0", "9" * 30, "-1", "nan", "[", "(", "|"]),
    )
    return "".join(draw(st.lists(parts, max_size=30)))


@settings(max_examples=150, deadline=2000)
@given(nearly_logs(), st.text(max_size=40))
def test_any_text_is_answered(text: str, context: str) -> None:
    for language in ("en", "zh"):
        render_text(diagnose_text(text, context=context, language=language), language)


@settings(max_examples=100, deadline=2000)
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(LITERALS).map(str.encode)), max_size=20))
def test_any_bytes_are_answered(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    diagnose_blocks([(data, 0)] if data else [])


@settings(max_examples=100)
@given(st.text())
def test_line_parsers_take_any_text(text: str) -> None:
    clean(text)
    is_command(text)
    origin_of(text)
    without_prefix(text)
    read_out_of_memory("Tried to allocate " + text)


def test_random_files_are_answered_or_refused(tmp_path: Path) -> None:
    rng = random.Random(7)
    path = tmp_path / "any"
    for _ in range(60):
        head = rng.choice([b"", b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\xff\xfe", b"\xfe\xff"])
        path.write_bytes(head + rng.randbytes(rng.randrange(0, 3000)))
        with suppress(UserError):
            diagnose(str(path))


@pytest.mark.parametrize("literal", random.Random(3).sample(LITERALS, 40))
def test_a_line_of_a_megabyte_of_one_literal_does_not_hang(literal: str) -> None:
    start = time.monotonic()
    diagnose_text((literal + " ") * (1_000_000 // (len(literal) + 1)))
    assert time.monotonic() - start < 5


def test_every_finder_finds_the_same_places() -> None:
    literals = load_catalogue().literals
    finders = [OneByOne(literals), ByTemplate(literals)]
    try:
        import ahocorasick_rs

        finders.append(Automaton(ahocorasick_rs, literals))
    except ImportError:
        print("ahocorasick_rs is not installed: its finder is not compared")
    rng = random.Random(11)
    for _ in range(20):
        block = "\n".join(rng.sample(SAMPLES, 12)).encode()
        places = [sorted(finder.find(block)) for finder in finders]
        assert all(place == places[0] for place in places)
    for finder in finders:
        finder.drop([0, 1, 2])
        assert not {number for number, _ in finder.find(b" ".join(literals))} & {0, 1, 2}
