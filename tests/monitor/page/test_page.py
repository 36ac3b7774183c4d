from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import read_scenario
from stoker.monitor.model import Exporter, Filesystem, GpuProcess, Host
from stoker.monitor.page.render import render_page
from stoker.monitor.view import Language, screen_of, words_of
from stoker.monitor.watch import Moment, Watch
from tests.monitor.samples import TIME, gpu, machine, moment, run

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}&lt;"
VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Collects tags and texts, and sees that every tag is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def page_of(known: Moment, language: Language = "en") -> str:
    words = words_of(language)
    return render_page(screen_of(known, words), words).text


@pytest.fixture(scope="module")
def demo() -> Moment:
    player, watch = Player(read_scenario(), begin=TIME), Watch()
    for second in range(-3600, 1, 10):
        watch.take(player.sample(second), second)
    assert watch.moment is not None
    return watch.moment


def test_names_from_processes_runs_and_drivers_are_text_and_nothing_else() -> None:
    process = GpuProcess(pid=1, process=HOSTILE, user=HOSTILE, container=HOSTILE, slurm_job=HOSTILE, run=HOSTILE)
    sample = machine(
        gpu(0, model=HOSTILE, uuid=HOSTILE, pci=HOSTILE, processes=(process,), blocked=True, error=HOSTILE),
        gpu(1, xid_errors={HOSTILE: 1.0}, xid_last_time={HOSTILE: TIME}, clock_event_active={HOSTILE: 1.0}),
        runs=(
            run(run=HOSTILE, folder=HOSTILE, task=HOSTILE, user=HOSTILE, precision=HOSTILE, loss=float("nan")),
            run(run="b", folder="b" + HOSTILE, state="failed", finding_title=HOSTILE, gpus=()),
        ),
        host=Host(filesystems=(Filesystem(mount=HOSTILE, size_bytes=1.0, available_bytes=0.0),)),
        exporter=Exporter(version="0", driver=HOSTILE, nvml_up=1, nvml_error=HOSTILE),
    )
    page = read(page_of(moment(sample)))
    assert [attributes for tag, attributes in page.tags if tag in ("script", "img")] == [{}], (
        "only the page's own script"
    )
    assert [name for _, attributes in page.tags for name in attributes if name.startswith("on")] == []
    assert sum(HOSTILE in text for text in page.texts) >= 10


def test_the_policy_knows_the_style_and_the_script_that_are_in_the_page(demo: Moment) -> None:
    words = words_of("en")
    page = render_page(screen_of(demo, words), words)
    policy = page.headers["Content-Security-Policy"]
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_is_asked_of_another_host_and_nothing_breaks_the_policy(demo: Moment, language: Language) -> None:
    page = read(page_of(demo, language))
    addresses = [attributes[name] for _, attributes in page.tags for name in ("src", "href") if name in attributes]
    assert sorted(set(addresses), key=str) == ["?lang=en" if language == "zh" else "?lang=zh", "data:,", "metrics"]
    assert [tag for tag, attributes in page.tags if "style" in attributes] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_picture_has_a_title_and_every_column_a_head(demo: Moment, language: Language) -> None:
    page = read(page_of(demo, language))
    names = [tag for tag, _ in page.tags]
    assert names.count("svg") == names.count("title") - 1 > 50
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    tables = re.findall(r"<table.*?</table>", page_of(demo, language), re.DOTALL)
    for table in tables:
        head, *rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        widths = {len(re.findall(r"<t[hd][ >]", row)) for row in (head, *rows)}
        assert len(widths) == 1


def test_identifiers_are_given_once(demo: Moment) -> None:
    identifiers = [attributes["id"] for _, attributes in read(page_of(demo)).tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_what_is_simulated_says_so(demo: Moment) -> None:
    assert "Simulated" in page_of(demo)
    assert "模拟数据" in page_of(demo, "zh")
    assert "Simulated" not in page_of(moment(machine(gpu())))


def test_an_empty_machine_has_a_page_too() -> None:
    texts = " ".join(read(page_of(moment(machine()))).texts)
    assert "No GPU was found." in texts
    assert "No run is known" in texts
    assert "Nothing wrong in what could be seen." in texts


def test_each_moment_of_the_demo_has_a_page_in_each_language() -> None:
    """So that no text, no state and no finding is without its words."""
    player, watch = Player(read_scenario(), begin=TIME), Watch()
    for known in _moments(player, watch):
        for language in ("en", "zh"):
            read(page_of(known, language))


def _moments(player: Player, watch: Watch) -> Iterator[Moment]:
    for second in range(0, 3600, 30):
        watch.take(player.sample(second), second)
        if second % 300 == 0 and watch.moment:
            yield watch.moment


def test_contrast_of_texts_is_enough_in_light_and_dark() -> None:
    """4.5 to 1, as WCAG 2.2 asks for texts (success criterion 1.4.3)."""
    style = re.findall(r"<style>(.*?)</style>", page_of(moment(machine())), re.DOTALL)[0]
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    )
    for theme in (light, dark):
        for ink in ("ink", "dim", "good", "bad", "warn", "calm"):
            backs = ["card", "paper", *([f"{ink}-back"] if f"{ink}-back" in theme else [])]
            for back in backs:
                assert _contrast(theme[ink], theme[back]) >= 4.5, (ink, back)


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
