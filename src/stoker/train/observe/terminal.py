"""Progress for the person: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from stoker.train.evaluate import EvaluationResult
from stoker.train.observe.base import Observer, StepRecord

_WINDOW = 50  # steps that the shown rates are taken over


class RecentRates:
    """Throughput and data-wait share over the last steps."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float, float]] = deque(maxlen=_WINDOW)

    def add(self, record: StepRecord) -> None:
        """Count a step."""
        self._steps.append((record.samples, record.seconds, record.phases.get("data", 0.0)))

    def text(self) -> str:
        """Such as `4,321 samples/s, waiting for data 3 %`."""
        samples, seconds, data = (sum(column) for column in zip(*self._steps, strict=True))
        rate = samples / seconds if seconds else 0.0
        shown = f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
        return f"{shown} samples/s, waiting for data {100 * data / max(seconds, 1e-9):.0f} %"


class Remaining:
    """Time that is left, from the progress since the loop began."""

    def __init__(self) -> None:
        self._began, self._start = time.monotonic(), 0.0

    def start(self, fraction: float) -> None:
        """Begin at `fraction` of the run."""
        self._began, self._start = time.monotonic(), fraction

    def text(self, fraction: float) -> str:
        """Such as `0:12:34 left`."""
        done = fraction - self._start
        if done <= 0:
            return "? left"
        seconds = (time.monotonic() - self._began) * max(0.0, 1 - fraction) / done
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d} left"


class TerminalObserver(Observer):
    """Sentences and evaluations; progress is up to the subclass."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rates, self.remaining = RecentRates(), Remaining()

    def say(self, text: str) -> None:
        """Print a sentence."""
        self.console.print(text, highlight=False, markup=False)

    def start(self, step: int, fraction: float) -> None:
        """Set the clock for the time that is left."""
        del step
        self.remaining.start(fraction)

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """One line per evaluation."""
        found = ", ".join(f"{name} {value:.4f}" for name, value in {"loss": result.loss, **result.metrics}.items())
        self.say(f"evaluated after step {step} (epoch {epoch + 1}): {found}")


class LineObserver(TerminalObserver):
    """A line now and then."""

    def __init__(self, console: Console, spacing: float) -> None:
        super().__init__(console)
        self._spacing, self._next = spacing, time.monotonic() + spacing

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """A line, if the last one is old enough."""
        self.rates.add(record)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._spacing
            self.say(
                f"step {record.step}, {100 * fraction:.0f} %: loss {record.loss:.4f}, {self.rates.text()}, "
                f"{self.remaining.text(fraction)}"
            )


class BarObserver(TerminalObserver):
    """A bar that stays at the bottom."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._bar = Progress(
            TextColumn("step {task.fields[step]}"), BarColumn(), TextColumn("{task.percentage:.0f} %"),
            TextColumn("loss {task.fields[loss]:.4f}"), TextColumn("{task.fields[rates]}"),
            TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
            console=console, refresh_per_second=4,
        )  # fmt: skip
        self._row: TaskID | None = None
        self._next = 0.0

    def start(self, step: int, fraction: float) -> None:
        """Show the bar."""
        super().start(step, fraction)
        self._row = self._bar.add_task("train", total=1.0, step=step, loss=float("nan"), rates="", left="")
        self._bar.update(self._row, completed=fraction)
        self._bar.start()

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """Move the bar, a few times a second."""
        self.rates.add(record)
        now = time.monotonic()
        if now >= self._next and self._row is not None:
            self._next = now + 0.2
            self._bar.update(
                self._row, completed=fraction, step=record.step, loss=record.loss, rates=self.rates.text(),
                left=self.remaining.text(fraction),
            )  # fmt: skip

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._row is not None:
            self._bar.update(self._row, left="")
        self._bar.stop()
