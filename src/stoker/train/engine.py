"""Puts a run together: from a task and a spec to a trained model in a run folder."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from stoker._version import __version__
from stoker.data.batches import Position
from stoker.data.loader import evaluation_requests, make_loader, training_requests
from stoker.data.order import Order, sample_seed
from stoker.errors import RunError, UserError
from stoker.host.environment import read_environment
from stoker.host.malloc import hand_back_freed_memory, keep_freed_memory
from stoker.report.html import write_report
from stoker.train import compat
from stoker.train.checkpoint import CheckpointStore, Progress, Saver, load_into
from stoker.train.checkpoint.random_state import seed_everything
from stoker.train.checkpoint.store import problem_of
from stoker.train.clock import make_clock
from stoker.train.devices import device_name
from stoker.train.evaluate import Evaluator
from stoker.train.export import save_weights
from stoker.train.footprint import footprint, start_counting
from stoker.train.loop import Loop
from stoker.train.memory import checkpoint_blocks
from stoker.train.notes import notes_on
from stoker.train.observe import Observers, RunFacts, make_observers
from stoker.train.optimizer import make_optimizer
from stoker.train.parallel import Strategy, choose_strategy
from stoker.train.precision import Precision, choose_precision
from stoker.train.run_folder import RunFolder
from stoker.train.settle import Settled, settle
from stoker.train.signals import StopFlag
from stoker.train.spec import RunSpec
from stoker.train.spec.model import checkpoint_stride
from stoker.train.step import Stepper, Trainee
from stoker.train.task import Task, own_collate
from stoker.train.world import World, join_world


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
        state: `finished`, or `stopped` by a signal: it can be resumed.
        folder: The run folder.
        step: Steps done.
        evaluation: Loss and metrics of the last evaluation; empty without one.
        model: The trained model, on this rank's device.
    """

    state: Literal["finished", "stopped"]
    folder: Path
    step: int
    evaluation: Mapping[str, float]
    model: nn.Module


def run(task: Task, spec: RunSpec) -> RunResult:
    """Train a task in this process, together with the others of the run if a launcher started several.

    Args:
        task: What to train.
        spec: How.

    Raises:
        UserError: The spec or task is not usable; nothing was started.
        RunError: The run failed for a known reason; checkpoints are kept.
    """
    compat.require_torch()
    compat.quiet_known_warnings()
    if spec.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    world = join_world()
    folder = RunFolder(Path(spec.output))
    engine = _Engine(task, spec, world, folder)
    try:
        return engine.run()
    except torch.OutOfMemoryError as error:
        told = _out_of_memory(error, engine, spec)
        folder.record_failure(told, rank=world.rank, step=engine.step)
        raise told from error
    except BaseException as error:
        folder.record_failure(error, rank=world.rank, step=engine.step)
        raise
    finally:
        if world.is_first and folder.root.is_dir():
            with contextlib.suppress(UserError):  # on a full disk the run's own error is the one to show
                write_report(folder.root)
        world.close()


def _choose_algorithms(*, deterministic: bool) -> None:
    """As torch.use_deterministic_algorithms, unless it is so already: to say so imports torch's compiler."""
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    if only_warns or torch.are_deterministic_algorithms_enabled() != deterministic:
        torch.use_deterministic_algorithms(deterministic)


def _out_of_memory(error: torch.OutOfMemoryError, engine: _Engine, spec: RunSpec) -> RunError:
    """Known by its type, not its text."""
    size = spec.batch.micro_size
    half = "a number below a rank's share of the batch" if size == "auto" else f"{max(1, size // 2)}"
    return RunError(
        f"rank {engine.world.rank} ran out of memory on {engine.world.device}: set batch.micro_size to {half}, "
        "or memory.activation_checkpointing to full; neither changes the result. "
        f"torch says: {next(iter(str(error).splitlines()), '')}"
    )


class _Engine:
    """One run on one rank."""

    def __init__(self, task: Task, spec: RunSpec, world: World, folder: RunFolder) -> None:
        self.task, self.spec, self.world, self.folder = task, spec, world, folder
        self.step: int | None = None

    def run(self) -> RunResult:
        spec, world = self.spec, self.world
        start_counting(world.device)
        _choose_algorithms(deterministic=spec.deterministic)
        seed_everything(spec.seed)  # the same on every rank: task and initial weights may be random
        settled = settle(self.task, spec, world)
        precision = choose_precision(spec.precision, world.device)
        strategy = choose_strategy(
            spec.parallel, world, static_graph=self.task.static_graph and settled.plan.accumulation == 1
        )
        trainee = self._trainee(strategy, precision)
        with ExitStack() as stack:
            if world.on_cpu and keep_freed_memory():
                stack.callback(hand_back_freed_memory)
            store = CheckpointStore(self.folder.checkpoints)
            self._prepare_folder(store, settled, precision)
            facts = self._facts(settled, precision, strategy)
            observers = make_observers(spec.observe, self.folder.root, world, facts)
            stack.callback(observers.close)
            progress = self._resume(store, trainee, observers)
            self.step = progress.position.step
            loop = self._loop(stack, settled, precision, strategy, trainee, store, observers, progress)
            for line in [
                *describe(spec, settled, precision, strategy),
                *notes_on(trainee.model, settled.plan),
            ]:
                observers.say(line)
            observers.on_event("resume" if progress.position.step else "start", progress.position.step)
            gc.collect()
            gc.freeze()  # what is here by now stays: the collector need not walk through torch again and again
            stack.callback(gc.unfreeze)
            try:
                complete = loop.run(self._train_loader(settled, progress.position))
            finally:
                self.step = loop.progress.position.step
            return self._finish(loop, observers, trainee, complete=complete)

    def _trainee(self, strategy: Strategy, precision: Precision) -> Trainee:
        model = self.task.build_model()
        if precision.model_dtype is not None:
            model = model.to(precision.model_dtype)
        checkpoint_blocks(model, self.task.blocks(model), checkpoint_stride(self.spec.memory.activation_checkpointing))
        module = strategy.wrap(model.train())
        optimizer = make_optimizer(self.spec.optimizer, model, self.world.device)
        # Dropout and the like differ between ranks, as they do between samples.
        seed_everything(sample_seed(self.spec.seed, 0, self.world.rank) >> 1)
        return Trainee(self.task, model, module, optimizer, precision.make_scaler())

    def _prepare_folder(self, store: CheckpointStore, settled: Settled, precision: Precision) -> None:
        """Rank 0 makes the folder; an error there is an error everywhere."""
        devices = self.world.gather(device_name(self.world.device))
        problem: Exception | None = None
        if self.world.is_first:
            try:
                self.folder.create()
                self.folder.failure.unlink(missing_ok=True)
                store.clean()
                self.folder.write_yaml("spec.yaml", self.spec.model_dump(mode="json"))
                self.folder.write_json("environment.json", self._environment(settled, precision, devices))
            except Exception as error:
                problem = error
        problem = self.world.first_says(problem)
        if problem is not None:
            raise problem

    def _environment(self, settled: Settled, precision: Precision, devices: list[str]) -> dict[str, Any]:
        return {
            "stoker": __version__,
            "pid": os.getpid(),
            "world_size": self.world.size,
            "devices": devices,
            "threads": torch.get_num_threads(),
            "data_workers": settled.workers,
            "precision": precision.format,
            **read_environment(),
        }

    def _facts(self, settled: Settled, precision: Precision, strategy: Strategy) -> RunFacts:
        return RunFacts(
            task=self.spec.task.use,
            world_size=self.world.size,
            strategy=strategy.name,
            precision=precision.format,
            micro_batch_size=settled.plan.micro_size,
            total_steps=settled.total_steps(self.spec, Position()),
            checkpoints=self.spec.checkpoint.every.unit != "never",
        )

    def _resume(self, store: CheckpointStore, trainee: Trainee, observers: Observers) -> Progress:
        """Continue from where the spec says; rank 0 looks, all ranks load the same."""
        chosen: Path | Exception | None = None
        if self.world.is_first:
            try:
                chosen = self._choose_checkpoint(store, observers)
            except Exception as error:
                chosen = error
        chosen = self.world.first_says(chosen)
        if isinstance(chosen, Exception):
            raise chosen
        if chosen is None:
            return Progress()
        progress = load_into(chosen, trainee, self.world)
        ranks = f", saved by {progress.world_size} ranks" if progress.world_size != self.world.size else ""
        observers.say(f"continuing from {chosen}{ranks}")
        return progress

    def _choose_checkpoint(self, store: CheckpointStore, observers: Observers) -> Path | None:
        setting = self.spec.checkpoint.resume
        if setting == "never":
            if existing := store.complete():
                raise UserError(
                    f"checkpoint.resume: never, but {store.root} holds {existing[0].name}; "
                    "choose another output folder, or write auto to continue"
                )
            return None
        if setting != "auto":
            folder = Path(setting)
            problem = problem_of(folder) if folder.is_dir() else "it does not exist"
            if problem is not None:
                raise UserError(f"checkpoint.resume: {folder} cannot be used: {problem}")
            return folder
        newest, problems = store.newest_valid()
        for problem in problems:
            observers.say(f"passing over a damaged checkpoint: {problem}")
        return newest

    def _loop(
        self,
        stack: ExitStack,
        settled: Settled,
        precision: Precision,
        strategy: Strategy,
        trainee: Trainee,
        store: CheckpointStore,
        observers: Observers,
        progress: Progress,
    ) -> Loop:
        spec, world = self.spec, self.world
        saver: Saver | None = None
        if spec.checkpoint.every.unit != "never":
            section = spec.checkpoint
            saver = Saver(store, world, keep=section.keep, asynchronous=section.asynchronous)
            stack.callback(saver.close)
        stop = stack.enter_context(StopFlag(watch_parent="TORCHELASTIC_RUN_ID" in os.environ))
        stepper = Stepper(
            trainee,
            strategy,
            precision,
            world,
            clip_norm=spec.gradient.clip_norm,
            clock=make_clock(world.device),
        )
        evaluator = None
        if settled.eval_data is not None:
            evaluator = Evaluator(self._eval_loader(settled), trainee, strategy, precision, world)
        return Loop(
            spec=spec,
            stepper=stepper,
            schedule=settled.schedule(spec, progress.position),
            total_steps=settled.total_steps(spec, progress.position),
            evaluator=evaluator,
            saver=saver,
            observers=observers,
            stop=stop,
            progress=progress,
        )

    def _train_loader(self, settled: Settled, start: Position) -> Any:
        spec = self.spec
        order = Order(settled.samples, spec.seed, spec.data.shuffle)
        requests = training_requests(order, settled.plan, spec.data.last_batch, start, self.world.rank)
        return self._loader(settled, settled.train_data, requests)

    def _eval_loader(self, settled: Settled) -> Any:
        assert settled.eval_data is not None
        length = len(settled.eval_data)  # pyright: ignore[reportArgumentType] # settle() has checked that it has one
        requests = evaluation_requests(length, settled.eval_batch_size, self.world.rank, self.world.size)
        return self._loader(settled, settled.eval_data, requests)

    def _loader(self, settled: Settled, dataset: Any, requests: Any) -> Any:
        return make_loader(
            dataset,
            requests,
            collate=own_collate(self.task),
            seed=self.spec.seed,
            workers=settled.workers,
            prefetch=self.spec.data.prefetch,
            pin_memory=self.world.device.type == "cuda",
        )

    def _finish(self, loop: Loop, observers: Observers, trainee: Trainee, *, complete: bool) -> RunResult:
        step = loop.progress.position.step
        if complete:
            save_weights(trainee.model, self.folder.model, self.world)
        self._tell_memory(observers, step)
        observers.on_event("end" if complete else "stop", step, message=loop.stop.reason)
        observers.flush()
        self.world.first_says(None)  # when any rank returns, the run folder is complete
        found: dict[str, float] = {}
        if loop.last_evaluation is not None:
            result = loop.last_evaluation[1]
            found = {"loss": result.loss, **result.metrics}
        return RunResult("finished" if complete else "stopped", self.folder.root, step, found, trainee.model)

    def _tell_memory(self, observers: Observers, step: int) -> None:
        """What the rank that needed most needed."""
        own = footprint(self.world.device)
        found = [one for one in self.world.gather(own) if one is not None]
        if found:
            most = max(found, key=lambda one: one.peak_bytes)
            observers.on_event("memory", step, kind=most.kind, peak_bytes=most.peak_bytes)


def describe(spec: RunSpec, settled: Settled, precision: Precision, strategy: Strategy) -> list[str]:
    """What was decided, in sentences: printed before a run and by `--dry-run`."""
    total = settled.total_steps(spec, Position())
    length = f"{total} steps" if total is not None else "as long as it takes"
    workers = f"{settled.workers} data workers per rank" if settled.workers else "data read by the ranks themselves"
    return [
        f"strategy: {strategy.describe()}",
        f"precision: {precision.format}, {precision.reason}",
        f"batch: {settled.plan}",
        f"data: {settled.samples} samples, {settled.steps_per_epoch} steps per epoch, {workers}",
        f"duration: {spec.duration} = {length}",
    ]
