"""The face of the command line: its verbs and options, their help, and how light its start is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from stoker._version import __version__
from stoker.cli.main import app
from stoker.train.spec.load import all_keys

PLANNED = [
    "TARGET", "OVERRIDES", "--gpu", "--gpus", "--layout", "--precision", "--checkpointing", "--micro-batch",
    "--accumulation", "--optimizer", "--sequence", "--image-size", "--compile", "--profile", "--format", "--html",
]  # fmt: skip
"""What `plan memory` and `plan speed` share."""

VERBS = {
    "": ["--version", "--install-completion", "--show-completion"],
    "train": ["RUN_FILE", "OVERRIDES", "--processes -n", "--dry-run", "--plan", "--explain", "--launched"],
    "schema": ["WHAT", "--format"],
    "report": ["RUNS", "--format", "--out"],
    "facts": ["TABLE", "--filter", "--where", "--columns", "--sources", "--format"],
    "doctor": ["--root", "--only", "--watch", "--format"],
    "doctor snapshot": ["--out", "--root"],
    "doctor collect": ["--run", "--out"],
    "doctor hang": ["--pid", "--run", "--format", "--lang"],
    "doctor examine": ["THINGS", "--format", "--lang"],
    "doctor log": ["FILE", "--context", "--format", "--lang"],
    "monitor": [],
    "monitor serve": ["--listen", "--web-config", "--interval", "--slow-interval", "--limit", "--runs"],
    "monitor top": ["--every", "--demo", "--lang"],
    "monitor demo": ["--listen"],
    "monitor unit": ["--listen", "--web-config"],
    "monitor render": ["FOLDER", "--target -t", "--notify", "--set", "--guides", "--prometheus", "--alertmanager"],
    "monitor up": [
        "--dir", "--target -t", "--notify", "--set", "--guides", "--host", "--port", "--keep-days",
    ],
    "monitor relay": ["NOTIFY", "--listen"],
    "plan": [],
    "plan versions": [
        "--gpu", "--this-machine", "--lspci", "--driver", "--driver-may-change", "--os", "--glibc", "--python",
        "--platform", "--torch", "--tensorflow", "--no-torch", "--requirements -r", "--plain-pip", "--allow-unsure",
        "--as", "--check", "--check-python", "--format",
    ],
    "plan power": [
        "--server", "--gpu", "--count", "--other-watts", "--supplies", "--spare", "--volts", "--phases", "--feeds",
        "--breaker", "--load", "--pue", "--price", "--format",
    ],
    "plan compare": [
        "CARDS", "--model", "--gpus", "--layout", "--precision", "--checkpointing", "--micro-batch", "--sequence",
        "--image-size", "--price", "--html", "--format",
    ],
    "plan topology": [
        "SERVER", "--gpu", "--servers", "--dataset-gb", "--samples", "--bytes-per-sample", "--samples-per-second",
        "--epochs", "--fill-hours", "--format",
    ],
    "plan memory": [*PLANNED, "--expandable-segments"],
    "plan speed": [
        *PLANNED, "--network", "--link", "--gpus-per-node", "--loader-rate", "--storage-gbs",
        "--gpu-hours-between-failures",
    ],
    "plan search": [
        "TARGET", "OVERRIDES", "--gpu", "--servers", "--gpus-per-server", "--network", "--deadline", "--tokens",
        "--samples", "--global-batch", "--price", "--precision", "--optimizer", "--sequence", "--image-size",
        "--finalists", "--write", "--format",
    ],
    "plan calibrate": ["--output -o", "--device"],
}  # fmt: skip
"""Every verb with its arguments and options. People and scripts rely on them: change this list knowingly."""


def walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, f"{name} {word}".strip())


COMMANDS = dict(walk(typer.main.get_command(app)))


def _words(parameter: Any) -> str:
    return " ".join(parameter.opts) if parameter.param_type_name == "option" else parameter.name.upper()


def test_verbs_and_options_are_as_they_were() -> None:
    found = {name: [_words(parameter) for parameter in command.params] for name, command in COMMANDS.items()}
    assert found == VERBS


def test_version(command: Callable[..., Any]) -> None:
    assert command("--version") == (0, f"stoker {__version__}\n", "")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help(verb: str, word: str, command: Callable[..., Any]) -> None:
    code, out, err = command(*verb.split(), word)
    assert (code, err) == (0, "")
    shown = [parameter for parameter in COMMANDS[verb].params if not getattr(parameter, "hidden", False)]
    assert all(parameter.opts[0] in out for parameter in shown if parameter.param_type_name == "option")
    assert all(parameter.help for parameter in shown), "an option without a word about it"
    hidden = [parameter for parameter in COMMANDS[verb].params if parameter not in shown]
    assert not any(parameter.opts[0] in out for parameter in hidden)
    assert out.startswith("Usage: ")
    assert COMMANDS[verb].help.split(".")[0].split("\n")[0][:40] in out


def test_the_help_of_train_lists_every_field(command: Callable[..., Any]) -> None:
    out = command("train", "--help").out
    plain = [key for key in all_keys() if not any(other.startswith(f"{key}.") for other in all_keys())]
    assert len(plain) >= 38
    assert [key for key in plain if f"\n  {key}: " not in out] == []


@pytest.mark.parametrize(
    "words", [["trian"], ["--no-such-option"], ["train", "run.yaml", "--no-such-option"], ["train", "-n", "0", "x"],
              ["train", "-n", "two", "x"], ["schema", "walk"], ["schema", "run", "--format", "xml"]],
)  # fmt: skip
def test_wrong_words(words: list[str], command: Callable[..., Any]) -> None:
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "Error" in err


def test_schema(command: Callable[..., Any]) -> None:
    schema = json.loads(command("schema", "run").out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert command("schema", "run", "--format", "markdown").out.startswith("# Run file\n")


@pytest.mark.parametrize("what", ["import stoker.cli.main", "import stoker", "stoker --help", "stoker --version"])
def test_a_start_loads_nothing_heavy(what: str) -> None:
    code = "import sys, stoker.cli.main as m" if what != "import stoker" else "import sys, stoker"
    if what.startswith("stoker"):
        code += f"\nsys.argv = {what.split()!r}\ntry: m.main()\nexcept SystemExit: pass"
    heavy = ["torch", "pydantic", "numpy", "yaml", "jinja2", "torchmetrics"]
    code += f"\nprint([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_has_seen_enough() -> None:
    """As `stoker schema run | head -1`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "train", "--explain", "all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.wait(30)
    said = process.stderr.read().decode()
    process.stderr.close()
    assert said == ""
