from __future__ import annotations

import os
import signal
import threading

import pytest

from stoker.train.signals import STOP_SIGNALS, StopFlag


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_only_raises_the_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopFlag() as flag:
        assert not flag.raised
        os.kill(os.getpid(), number)
        assert flag.raised
        assert flag.reason == number.name
    assert signal.getsignal(number) is before


def test_a_second_interrupt_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopFlag() as flag:
        os.kill(os.getpid(), signal.SIGINT)
        assert flag.raised
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_further_requests_of_a_scheduler_are_no_reason_to_lose_the_save() -> None:
    with StopFlag() as flag:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert flag.raised


def test_the_launcher_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: the parent's number changes."""
    flag, careless = StopFlag(watch_parent=True), StopFlag()
    assert not flag.raised
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert flag.raised
    assert flag.reason == "the launcher is gone"
    assert not careless.raised


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def enter() -> None:
        with StopFlag() as flag:
            found.extend([flag.raised, signal.getsignal(signal.SIGTERM)])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [False, before]
