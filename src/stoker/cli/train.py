"""`stoker train`: train on everything here."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.failure import cause_told
from stoker.cli.lazy_help import LazyHelpCommand
from stoker.errors import ExitCode, UserError

if TYPE_CHECKING:
    from stoker.train.spec import LoadedSpec
    from stoker.train.task import Task


class TrainCommand(LazyHelpCommand):
    """Lists the fields of a run file below the options."""

    @staticmethod
    def more_help() -> str:
        """The fields."""
        from stoker.train.spec.document import help_text

        return help_text()


def train(
    run_file: Annotated[Path | None, typer.Argument(help="The run file (YAML).", show_default=False)] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Fields to set instead: key.path=value.", show_default=False)
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option("--processes", "-n", min=1, help="Processes. Default: one per GPU; 1 on the CPU."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and train nothing.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="First say how much memory and time it should take, and if it fits.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="KEY", help="Explain a field, a section, or `all`.")
    ] = None,
    launched: Annotated[Path | None, typer.Option("--launched", metavar="FOLDER", hidden=True)] = None,
) -> None:
    """Train a task on all devices of this machine.

    Started plainly, it starts one process per GPU; started by torchrun or srun, it joins.
    Exit codes: 0 done, 1 failed, 2 a mistake in what was asked for, 75 told to stop, saved, can be resumed.
    """
    if explain is not None:
        from stoker.train.spec.document import explain as explained

        typer.echo(explained(explain))
        return
    if run_file is None:
        raise UserError("name a run file: stoker train run.yaml (or --explain KEY)")
    from stoker.train.ranks import read_ranks
    from stoker.train.spec import load_spec

    loaded = load_spec(run_file, overrides or [])
    ranks = read_ranks(os.environ)
    if ranks is not None and processes not in (None, ranks.world_size):
        raise UserError(f"--processes {processes}, but the launcher started {ranks.world_size}: leave it out")
    if launched is not None:  # by this command: `run_file` is the settled spec, `launched` where the task starts
        loaded = replace(loaded, folder=launched)
        if ranks is not None and ranks.rank > 0:
            _log_to_file(Path(loaded.spec.output) / "logs" / f"rank{ranks.rank}.log")
    _need_torch()
    count = ranks.world_size if ranks is not None else _processes(loaded, processes)
    is_first = ranks is None or ranks.rank == 0
    if dry_run:
        _dry_run(loaded, ["stoker", "train", str(run_file), *(overrides or [])], count)
    if plan and is_first:
        _plan(loaded, count, keep=not dry_run)
    if dry_run:
        return
    with cause_told(Path(loaded.spec.output), None if ranks is None else ranks.rank):
        if ranks is not None or count == 1:
            _train_here(loaded, is_first=is_first, launched=launched is not None)
        else:
            _launch(loaded, count)


def _need_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UserError("training needs torch, which is not installed here: pip install 'stoker[train]'")


def _processes(loaded: LoadedSpec, asked: int | None) -> int:
    """Processes to start: as asked, else one per GPU, else one."""
    if asked is not None:
        return asked
    if loaded.spec.parallel.strategy in ("single", "dp"):
        return 1
    from stoker.train.devices import device_count

    return max(1, device_count())


def _task(loaded: LoadedSpec) -> Task:
    from stoker.train.find_task import find_task

    return find_task(loaded.spec.task, loaded.folder)


def _dry_run(loaded: LoadedSpec, command: list[str], count: int) -> None:
    import yaml

    from stoker.launch.local import torchrun_line
    from stoker.train.dry_run import dry_run

    typer.echo(yaml.safe_dump(loaded.spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True))
    for line in dry_run(_task(loaded), loaded.spec, count):
        typer.echo(line)
    typer.echo(f"command: {torchrun_line(command, count)}")


def _plan(loaded: LoadedSpec, count: int, *, keep: bool) -> None:
    """Say what is expected, and keep it in the run folder. What cannot be planned can still be trained."""
    from stoker.forecast.run import device_here, forecast
    from stoker.train.run_folder import RunFolder

    try:
        expected = forecast(loaded, device_here(count, say=typer.echo), count)
    except UserError as error:
        typer.echo(f"no plan: {error}")
        return
    typer.echo(str(expected))
    if keep:
        folder = RunFolder(Path(loaded.spec.output))
        folder.create()
        folder.write_json("plan.json", expected.to_json())


def _train_here(loaded: LoadedSpec, *, is_first: bool, launched: bool) -> None:
    """Train in this process. How it ended is told by rank 0, or by the launcher where that is ours."""
    try:
        task = _task(loaded)  # a mistake in naming it is told before the engine is imported
        from stoker.train.engine import run

        result = run(task, loaded.spec)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        if launched:
            _leave_to_launcher(loaded, error)
        raise
    if is_first and not launched:
        _say_end(result.folder, stopped=result.state == "stopped")
    if result.state == "stopped":
        raise SystemExit(ExitCode.STOPPED)


def _leave_to_launcher(loaded: LoadedSpec, error: Exception) -> None:
    """Write the failure down and end; the launcher shows the first one, once."""
    from stoker.train.run_folder import RunFolder

    rank = int(os.environ.get("RANK", "0"))
    RunFolder(Path(loaded.spec.output)).record_failure(error, rank=rank, step=None)
    if rank > 0:
        traceback.print_exc()  # into its log file
    raise SystemExit(error.exit_code if isinstance(error, UserError) else ExitCode.FAILED) from None


def _launch(loaded: LoadedSpec, count: int) -> None:
    """Start the processes on the settled spec, wait, and tell how it ended, once."""
    from stoker.launch.local import launch
    from stoker.launch.outcome import failure_of
    from stoker.train.run_folder import RunFolder

    folder = RunFolder(Path(loaded.spec.output))
    folder.create()
    folder.failure.unlink(missing_ok=True)
    folder.write_yaml("spec.yaml", loaded.spec.model_dump(mode="json"))
    settled = str(folder.root / "spec.yaml")
    code, failures = launch(["stoker", "train", settled, "--launched", str(loaded.folder)], count)
    if code in (ExitCode.OK, ExitCode.STOPPED):
        _say_end(folder.root, stopped=code == ExitCode.STOPPED)
        raise SystemExit(code)
    if code == ExitCode.INTERRUPTED:
        raise SystemExit(code)
    raise failure_of(folder.failure, failures)


def _say_end(folder: Path, *, stopped: bool) -> None:
    from rich.console import Console

    from stoker.report.runfolder import read_run
    from stoker.report.terminal import print_report

    print_report(read_run(folder), Console())
    if stopped:
        typer.echo(f"Stopped as told, and saved: the same command continues from {folder / 'checkpoints'}.")
        return
    typer.echo(
        f"The run folder is {folder}; open {folder / 'report.html'} in a browser.\n"
        "What to try next:\n"
        f"  stoker train RUN_FILE optimizer.lr=1e-3 output={folder}-2   another setting, beside this one\n"
        f"  stoker report {folder} {folder}-2   what tells them apart\n"
        "  stoker train --explain all   everything that can be set"
    )


def _log_to_file(path: Path) -> None:
    """Send this process's output to a file: the terminal belongs to rank 0."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
