from __future__ import annotations

import re
from importlib.resources import files

import pytest

from stoker.monitor.gpu.readings import CLOCK_EVENTS
from stoker.monitor.rules.tables import alerts
from stoker.monitor.view.words import LANGUAGES, chosen_language, words_of
from stoker.report.figures import UNKNOWN

ENGLISH = words_of("en")


def test_all_languages_have_the_same_texts_with_the_same_places() -> None:
    places = {
        language: {key: _places(text) for key, text in words_of(language).table.items()} for language in LANGUAGES
    }
    assert len(places["en"]) > 150
    for language in LANGUAGES:
        assert places[language] == places["en"], language


def _places(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


def test_chinese_is_chinese() -> None:
    same = {key for key, text in words_of("zh").table.items() if text == ENGLISH.table[key]}
    technical = re.compile(r"[A-Za-z0-9 /{}×.·-]*")
    assert [key for key in same if not technical.fullmatch(ENGLISH.table[key])] == []


def test_every_cause_that_is_judged_has_its_texts() -> None:
    judged = {
        cause
        for name in ("gpus", "runs", "host")
        for cause in re.findall(
            r'"((?:gpu|run|driver|shm|host|gpus)-[a-z-]+)"',
            files("stoker.monitor.judge").joinpath(f"{name}.py").read_text(encoding="utf-8"),
        )
    } | {"run-failed", "run-killed"}
    written = {key.split(".")[1] for key in ENGLISH.table if key.startswith("finding.")}
    assert judged == written
    for cause in written:
        assert ENGLISH.has(f"finding.{cause}.meaning")
        assert ENGLISH.has(f"finding.{cause}.title")
        assert ENGLISH.has(f"finding.{cause}.fix.0")


def test_what_is_also_an_alert_has_its_name() -> None:
    """So that a finding leads to the alert's runbook page; these are found by the page alone."""
    pages = {alert.page for alert in alerts()}
    written = {key.split(".")[1] for key in ENGLISH.table if key.startswith("finding.")}
    own = {"driver-silent", "gpu-blocked", "gpu-xid", "gpus-missing", "run-hung", "run-killed", "shm-full"}
    assert written - pages == own


def test_every_reason_for_a_low_clock_has_its_words() -> None:
    assert [reason for reason in CLOCK_EVENTS if not ENGLISH.has(f"reason.{reason}")] == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "share", UNKNOWN),
        (0.0, "share", "0 %"),
        (0.004, "share", "0.4 %"),
        (0.976, "share", "98 %"),
        (float("nan"), "share", "NaN"),
        (71.4 * 2**30, "bytes", "71.4 GiB"),
        (74.4, "celsius", "74 °C"),
        (-2, "celsius", "-2 °C"),
        (647.2, "watts", "647 W"),
        (12_400.0, "watts", "12.4 kW"),
        (7.2e6, "joules", "2.0 kWh"),
        (1.98e9, "hertz", "1,980 MHz"),
        (2.4e9, "rate", "2.4 GB/s"),
        (3.2e6, "rate", "3.2 MB/s"),
        (0.0, "rate", "0 MB/s"),
        (12_345.0, "count", "12,345"),
        (1.0, "yes", "yes"),
        (0.0, "yes", "no"),
    ],
)
def test_values_are_written_with_their_unit(value: float | None, unit: str, text: str) -> None:
    assert ENGLISH.written(value, unit) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.61, "0.61 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (386, "6 min 26 s"),
        (5400, "1 h 30 min"),
        (1e6, "11 d 13 h"),
    ],
)
def test_spans_have_two_units(seconds: float, text: str) -> None:
    assert ENGLISH.span(seconds) == text


@pytest.mark.parametrize(
    ("asked", "accepted", "language"),
    [
        ("", "", "en"),
        ("zh", "", "zh"),
        ("zh-CN", "en", "zh"),
        ("en", "zh", "en"),
        ("", "zh-TW,zh;q=0.9", "zh"),
        ("", "de, zh;q=0.5, en;q=0.6", "en"),
        ("", "*;q=broken,,;;q=", "en"),
        ("xx", "zh", "en"),
    ],
)
def test_the_language_is_the_one_that_is_asked_for_and_else_the_preferred(
    asked: str, accepted: str, language: str
) -> None:
    assert chosen_language(asked, accepted) == language
