"""`stoker doctor log` as a person and as a program call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.errors import ExitCode, UserError

ECC = "start\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def run(*words: str, given: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", "log", *words], input=given, env=env)
    if isinstance(result.exception, UserError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def test_json_is_what_a_program_reads() -> None:
    code, output = run("--format", "json", "-", given=ECC)
    answer = json.loads(output)
    assert code == ExitCode.FAILED
    assert (answer["lines"], answer["bytes"]) == (2, len(ECC))
    (finding,) = answer["findings"]
    assert finding["cause"] == "uncorrectable-ecc-error"
    assert 0.9 < finding["confidence"] <= 1
    assert finding["evidence"] == [{"line": 2, "text": ECC.splitlines()[1], "source": ""}]


def test_nothing_wrong_is_an_answer() -> None:
    assert run("--format", "json", "-", given="all well\n") == (
        ExitCode.OK,
        json.dumps({"schema": 1, "lines": 1, "bytes": 9, "findings": []}, indent=1) + "\n",
    )
    code, output = run("-", given="all well\n")
    assert code == ExitCode.OK
    assert "Nothing wrong found" in output


def test_text_shows_evidence_fix_and_source() -> None:
    code, output = run("-", given=ECC)
    assert code == ExitCode.FAILED
    for words in ("line 2: RuntimeError", "What mends it", "--gpu-reset", "Source: https://"):
        assert words in output


@pytest.mark.parametrize(
    ("words", "env", "expected"),
    [
        (["--lang", "zh"], {"LANG": "en_US.UTF-8"}, "解决办法"),
        ([], {"LANG": "zh_CN.UTF-8", "LC_ALL": "", "LC_MESSAGES": ""}, "解决办法"),
        ([], {"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "What mends it"),
        (["--lang", "en"], {"LANG": "zh_CN.UTF-8"}, "What mends it"),
    ],
)
def test_the_language_is_chosen(words: list[str], env: dict[str, str], expected: str) -> None:
    assert expected in run(*words, "-", given=ECC, env=env)[1]


def test_context_decides_where_the_log_cannot() -> None:
    log = "Unable to determine the device handle for GPU 0000:0A:00.0: Unknown Error\n"
    causes = [
        json.loads(run("--format", "json", "--context", context, "-", given=log)[1])["findings"][0]["cause"]
        for context in ("", "passively cooled T4 without airflow")
    ]
    assert causes == ["gpu-fallen-off-bus", "gpu-overheated-shutdown"]


@pytest.mark.parametrize("name", ["missing.log", ".", "empty.log", "photo.jpg"])
def test_wrong_usage_is_one_sentence_and_exit_code_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(100))
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "doctor", "log", str(tmp_path / name)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_terminal_that_knows_only_ascii_gets_an_answer(form: str) -> None:
    line = "错误 RuntimeError: CUDA error: uncorrectable ECC error encountered ☃\n"
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "doctor", "log", "--format", form, "--context", "é", "-"],
        input=line.encode(),
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == ExitCode.FAILED, done.stderr
    if form == "json":
        assert json.loads(done.stdout)["findings"][0]["evidence"][0]["text"] == line.strip()


def test_the_log_command_loads_nothing_heavy() -> None:
    program = (
        "import sys; from stoker.doctor.log import diagnose_text; diagnose_text('CUDA out of memory'); "
        "print(sorted({'yaml', 'pydantic', 'torch', 'rich', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
