"""`doctor.pyz`: the doctor in one file for a bare server, with Python's standard library only.

The same answers as `stoker doctor`; a command line of its own, since typer is not there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker._version import __version__
from stoker.errors import ExitCode, UserError

USAGE = """\
doctor.pyz                              examine this machine
doctor.pyz collect [--run RUN] [--out FILE]  put all that a diagnosis needs into one masked file
doctor.pyz log FILE|- [--context TEXT]  find the cause in a log
doctor.pyz hang --pid PID | --run RUN   ask a job that hangs which rank is missing
doctor.pyz RUN_FOLDER | BUNDLE...       examine a run, or bundles, several side by side

Exits 0 if nothing wrong was found, 1 if something was, 2 for a mistake in what was asked for.
"""
COMMANDS = ("collect", "log", "hang")


def main(words: Sequence[str] | None = None) -> None:
    """Run it; ends with an exit code."""
    given = list(sys.argv[1:] if words is None else words)
    try:
        sys.exit(_run(given))
    except UserError as error:
        for mistake in error.mistakes:
            print(f"error: {mistake}", file=sys.stderr)  # noqa: T201 - it has nothing else to speak with
        sys.exit(error.exit_code)


def _run(words: list[str]) -> ExitCode:
    command = words.pop(0) if words and words[0] in COMMANDS else "examine"
    parser = argparse.ArgumentParser(
        prog=f"doctor.pyz {command}" if command != "examine" else "doctor.pyz",
        usage=USAGE if command == "examine" else None,
        description="What is wrong with this machine, this run, this log, and what mends it.",
    )
    parser.add_argument("--version", action="version", version=f"stoker {__version__}")
    if command == "collect":
        parser.add_argument("--run", type=Path, help="a run folder to take along: its text, not its weights")
        parser.add_argument("--out", type=Path, help="the file to write")
        return _collect(parser.parse_args(words))
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people or for programs")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the answer")
    if command == "log":
        parser.add_argument("file", help="the log; - reads the standard input")
        parser.add_argument("--context", default="", help="what the log does not say")
        return _log(parser.parse_args(words))
    if command == "hang":
        parser.add_argument("--pid", type=int, help="any process of the job")
        parser.add_argument("--run", type=Path, help="the run folder, instead of a process")
        return _hang(parser.parse_args(words))
    parser.add_argument("things", nargs="*", type=Path)
    return _examine(parser.parse_args(words))


def _collect(given: Any) -> ExitCode:
    from stoker.doctor.bundle.collect import collect, default_name
    from stoker.host.live import Live

    _say(collect(Live(), given.out or default_name(), given.run).text())
    return ExitCode.OK


def _log(given: Any) -> ExitCode:
    from stoker.doctor.log import diagnose
    from stoker.doctor.render import render_text

    found = diagnose(given.file, context=given.context, language=given.lang)
    return _answer(given, found.to_json(), render_text(found, given.lang), wrong=bool(found.findings))


def _hang(given: Any) -> ExitCode:
    from stoker.doctor.hang import ask
    from stoker.doctor.hang.ask import process_of_run

    if (given.pid is None) == (given.run is None):
        raise UserError("name the job: --pid PID (a rank or the launcher), or --run RUN_FOLDER")
    answer = ask(given.pid if given.pid is not None else process_of_run(given.run), given.lang)
    return _answer(given, answer.to_json(), answer.text(), wrong=answer.is_wrong)


def _examine(given: Any) -> ExitCode:
    if given.things:
        from stoker.doctor.examine import examine

        answer = examine(given.things, given.lang)
        return _answer(given, answer.to_json(), answer.text(), wrong=answer.is_wrong)
    from stoker.doctor.checks.run import examine as examine_machine
    from stoker.doctor.checks.show import render_text
    from stoker.host.live import Live
    from stoker.host.snapshot import read_snapshot

    found = examine_machine(read_snapshot(Live()))
    return _answer(given, found.to_json(), render_text(found), wrong=bool(found.of("fail")))


def _answer(given: Any, value: Any, text: str, *, wrong: bool) -> ExitCode:
    _say(json.dumps(value, indent=1) if given.format == "json" else text)
    return ExitCode.FAILED if wrong else ExitCode.OK


def _say(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))  # noqa: T201 - it has nothing else to speak with
