import re
from html.parser import HTMLParser

import pytest

from stoker.errors import UserError
from stoker.report.html import MAX_EVENTS, render_comparison, render_report, write_comparison, write_report
from stoker.report.runfolder import read_run, read_runs

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Checks that elements are closed in order; gathers text, ids and what a browser would fetch."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.words, self.ids, self.fetched, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "srcset", "action", "xlink:href"}:
                self.fetched.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def failed(make_run):
    finding = {
        "state": "fail",
        "cause": "memory",
        "title": "The GPU is full",
        "fix": ["halve <batch>"],
        "evidence": [{"text": "CUDA out of memory", "line": 7, "source": "logs/rank1.log"}],
    }
    failure = {
        "rank": 1,
        "step": 40,
        "kind": "out of memory",
        "message": "tried <2 GiB>",
        "traceback": "Traceback:\n  <module> & more",
        "time": 1_700_000_050.0,
        "findings": [finding],
    }
    return make_run("failed", failure=failure, lr=0.5)


def test_pages_are_well_formed_and_ask_for_nothing_from_outside(make_run, failed):
    pages = [render_report(read_run(make_run())), render_report(read_run(failed))]
    pages.append(render_comparison(read_runs([make_run("other"), failed])))
    for text in pages:
        page = Page(text)
        assert "http" not in text
        assert "@import" not in text
        assert "url(" not in text
        assert page.fetched == ["data:,"]
        assert not {"iframe", "object", "embed", "img"} & set(page.tags)
        assert len(page.ids) == len(set(page.ids))


def test_the_page_shows_the_data(make_run):
    text = Page(render_report(read_run(make_run()))).text
    for words in (
        "run finished",
        "image-classification, model resnet18 · 2 × Test GPU · bf16",
        "Accuracy (evaluation) 0.4 best 0.4 at step 40",
        "128 samples/s",
        "data 10 % 4 s",
        "other 32 % 13 s",
        "optimizer name sgd lr 0.1",
        "memory 64 GiB",
        "torch 2.14.1",
        "checkpoint 20 1 s",
        "loss training 0.5272 0.5272 40",
        "Checkpoints 2, the last at step 40",
    ):
        assert words in text, words


def test_the_failure_is_shown_with_its_traceback_folded(failed):
    html = render_report(read_run(failed))
    text = Page(html).text
    for words in (
        "out of memory at step 40 on rank 1",
        "tried <2 GiB>",
        "The GPU is full",
        "CUDA out of memory logs/rank1.log, line 7",
        "halve <batch>",
        "Traceback: <module> & more",
    ):
        assert words in text, words
    assert re.search(r"<details><summary>Traceback</summary><pre>Traceback:\n  &lt;module&gt; &amp; more</pre>", html)


def test_a_failure_that_a_resume_mended_is_no_longer_shown(make_run):
    events = [{"event": "start", "time": 1}, {"event": "resume", "time": 20}, {"event": "end", "time": 30}]
    text = Page(render_report(read_run(make_run(events=events, failure={"time": 5, "message": "old trouble"})))).text
    assert "finished" in text
    assert "old trouble" not in text


def test_what_a_run_says_cannot_become_markup(make_run, row):
    evil = "</script><script>alert(1)</script>"
    folder = make_run("evil", rows=[row(1, **{evil: 1.0})], events=[{"event": evil, "message": evil, "time": 1}])
    (folder / "spec.yaml").write_text(f"task: '{evil}'\n'{evil}': '{evil}'\n")
    for text in (render_report(read_run(folder)), render_comparison(read_runs([folder, make_run()]))):
        assert Page(text).tags.count("script") == 1
        assert evil not in text


def test_the_comparison_marks_the_best_and_lists_what_differs(make_run):
    runs = [make_run("slow", lr=0.1), make_run("fast", lr=0.2, steps=50)]
    text = Page(render_comparison(read_runs(runs))).text
    assert "2 runs compared slow · fast" in text
    assert "accuracy (evaluation), best 0.4 ★ 0.5" in text
    assert "Setting slow fast optimizer.lr 0.1 0.2 " in text
    assert "data.workers" not in text.replace("try data.workers=4", "")


def test_equal_runs_have_no_best_and_no_difference(make_run):
    html = render_comparison(read_runs([make_run("a"), make_run("b")]))
    assert html.count("★") == 1  # the one that explains the sign
    assert "the runs have the same settings" in html


def test_many_events_are_cut_in_the_middle(make_run):
    events = [{"event": "checkpoint", "time": step, "step": step} for step in range(1000)]
    html = render_report(read_run(make_run(events=events)))
    assert f"{1000 - MAX_EVENTS} in the middle are left out" in html
    assert html.count('<th scope="row">checkpoint</th>') == MAX_EVENTS


def test_a_report_is_written_into_the_run_folder_and_nothing_else_is_left(make_run):
    folder = make_run()
    before = {path.name for path in folder.iterdir()}
    assert write_report(folder) == folder / "report.html"
    assert {path.name for path in folder.iterdir()} == before | {"report.html"}
    assert write_report(folder).read_text() == render_report(read_run(folder))


def test_a_comparison_is_written_here_or_where_told(make_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [make_run("a"), make_run("b")]
    assert write_comparison(runs).absolute() == tmp_path / "comparison.html"
    assert write_comparison(runs, tmp_path / "x.html") == tmp_path / "x.html"
    assert (tmp_path / "x.html").read_text() == (tmp_path / "comparison.html").read_text()


def test_a_place_that_cannot_be_written_is_a_mistake_and_leaves_the_old_page(make_run, tmp_path, monkeypatch):
    folder = make_run()
    with pytest.raises(UserError, match="No such file or directory; name another place"):
        write_report(folder, tmp_path / "missing" / "x.html")
    with pytest.raises(UserError, match="it is a folder"):
        write_report(folder, tmp_path)
    old = tmp_path / "old.html"
    old.write_text("old")

    def full(path, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(old), "replace", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_report(folder, old)
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_size_of_a_page_does_not_grow_with_the_run(make_run, row):
    short = render_report(read_run(make_run("short", rows=[row(step) for step in range(1, 2001)])))
    long = render_report(read_run(make_run("long", rows=[row(step) for step in range(1, 20001)])))
    assert len(long) < 1.5 * len(short) < 600_000
