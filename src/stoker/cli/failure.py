"""Below the error of a failed run, what the doctor makes of it."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from stoker.cli.answer import language_of_environment, print_text, show_mistakes
from stoker.errors import ExitCode, UserError

SURE_ENOUGH = 0.5
"""A cause that the doctor is less sure of would only stand in the way of the error itself."""


@contextmanager
def cause_told(folder: Path, rank: int | None) -> Generator[None]:
    """Show how a run failed and why, and end with exit code 1. What was never started is left to the caller.

    Args:
        folder: The run folder.
        rank: Of this process if a launcher started several: only the first that failed speaks of the cause.

    Raises:
        SystemExit: In place of what was raised.
    """
    try:
        yield
    except UserError as error:
        if error.exit_code == ExitCode.USAGE:
            raise
        show_mistakes(error)
        _explain(folder, str(error), rank)
        raise SystemExit(error.exit_code) from None
    except Exception as error:
        traceback.print_exception(error)
        _explain(folder, f"{type(error).__name__}: {error}", rank)
        raise SystemExit(ExitCode.FAILED) from None


def _explain(folder: Path, said: str, rank: int | None) -> None:
    try:
        from stoker.doctor.render import render_findings
        from stoker.doctor.runs import diagnose_run, record_findings

        diagnosis = diagnose_run(folder, said=said, language=language_of_environment())
        sure = [one for one in diagnosis.failures if one.confidence >= SURE_ENOUGH and one.cause != "program-exception"]
        if not sure or rank not in (None, diagnosis.failed_rank):
            return
        print_text(f"\n{render_findings(sure[:1], diagnosis.language)}\n\nMore: stoker doctor {folder}", err=True)
        if record_findings(folder, sure):
            from stoker.report.html import write_report

            write_report(folder)
    except UserError:
        return  # there is no run folder
    except Exception as problem:  # the run's own error must not drown in one of the doctor's
        typer.echo(f"the doctor could not look at {folder}: {type(problem).__name__}: {problem}", err=True)
