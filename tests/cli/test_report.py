import json
import subprocess
import sys

import pytest

from stoker.cli.main import main


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.yaml").write_text("task: {name: image-classification}\nseed: 0\n")
    rows = [{"step": s, "loss": 1 / s, "samples": 8, "seconds": 0.5} for s in range(1, 11)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def stoker(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["stoker", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return call


def test_text_is_the_default(stoker, run_folder):
    code, out, err = stoker("report", run_folder)
    assert (code, err) == (0, "")
    assert "one  unfinished" in out
    assert "16 samples/s" in out


def test_json_is_for_programs(stoker, run_folder):
    code, out, _ = stoker("report", run_folder, "--format", "json")
    assert code == 0
    assert json.loads(out)["runs"][0]["steps"] == 10


def test_html_goes_into_the_run_folder(stoker, run_folder):
    code, out, _ = stoker("report", run_folder, "--format", "html")
    assert (code, out) == (0, f"wrote {run_folder / 'report.html'}\n")
    assert (run_folder / "report.html").read_text().startswith("<!doctype html>")


def test_html_of_several_runs_goes_here(stoker, run_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = stoker("report", run_folder, run_folder, "--format", "html")
    assert (code, out) == (0, "wrote comparison.html\n")
    assert "2 runs compared" in (tmp_path / "comparison.html").read_text()


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_out_names_the_file(stoker, run_folder, tmp_path, form):
    code, out, _ = stoker("report", run_folder, "--format", form, "--out", tmp_path / "file")
    assert (code, out) == (0, f"wrote {tmp_path / 'file'}\n")
    assert "one" in (tmp_path / "file").read_text()
    assert not (run_folder / "report.html").exists()


def test_several_runs_are_compared(stoker, run_folder):
    code, out, _ = stoker("report", run_folder, run_folder)
    assert code == 0
    assert "The runs have the same settings." in out


def test_every_wrong_path_is_named_in_a_sentence(stoker, run_folder, tmp_path):
    code, out, err = stoker("report", tmp_path / "no", run_folder / "spec.yaml", tmp_path / "runs")
    assert (code, out) == (2, "")
    assert [line.split(": ")[0] for line in err.splitlines()] == ["error"] * 3
    assert "there is no run folder" in err
    assert "is a file, not a run folder" in err
    assert "is no run folder but holds some" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_place_that_cannot_be_written_is_named(stoker, run_folder, tmp_path, form):
    code, _, err = stoker("report", run_folder, "--format", form, "--out", tmp_path / "no" / "file")
    assert code == 2
    assert err.startswith("error: cannot write")


def test_importing_the_verb_is_light():
    heavy = "pydantic torch yaml jinja2 rich.console stoker.report.html"
    code = f"import sys, stoker.cli.report; print([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
