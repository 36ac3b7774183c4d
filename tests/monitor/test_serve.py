"""`stoker monitor serve` as a person starts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.errors import UserError
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.serve import ServeOptions, as_words, from_words, parse_listen
from stoker.monitor.unit import unit_text
from tests.monitor.waiting import until
from tests.nvml_sim import Scenario

Labels = dict[str, str]


class Exporter:
    """A running `stoker monitor serve`."""

    def __init__(self, *words: object) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        # -P: the installed command does not look into the present folder either, unlike plain `python -m`.
        command = [sys.executable, "-P", "-m", "stoker", "monitor", "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen([*command, *map(str, words)], stderr=subprocess.PIPE, text=True)

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def ready(self) -> Exporter:
        def answers() -> bool:
            assert self.process.poll() is None, self.process.communicate()[1]
            try:
                return bool(self.get("/-/healthy"))
            except OSError:
                return False

        until(answers, 60)
        return self

    def series(self, name: str) -> list[tuple[Labels, float]]:
        families = text_string_to_metric_families(self.get())
        return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(10)


@pytest.fixture
def exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Exporter]]:
    monkeypatch.setenv("STOKER_RUNS", str(tmp_path / "registry"))
    started: list[Exporter] = []

    def start(*words: object) -> Exporter:
        started.append(Exporter(*words))
        return started[-1].ready()

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_gpus_are_served_and_it_ends_when_told(
    simulated: Callable[..., Scenario],
    exporter: Callable[..., Exporter],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated("h100", 8)
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the present folder was taken for a library')")
    monkeypatch.chdir(tmp_path)
    started = exporter("--interval", 0.5)
    until(lambda: len(started.series("stoker_gpu_power_watts")) == 8)
    sample = json.loads(started.get("/sample.json"))
    assert sample["simulated"] is True
    assert sample["gpus"][7]["power_watts"] == pytest.approx(612.345)
    assert started.series("stoker_exporter_nvml_up") == [({}, 1.0)]
    asking = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()
              and b"stoker.monitor.gpu" in _command(entry) and _parent(entry) == started.process.pid]  # fmt: skip
    assert len(asking) == 1
    assert started.end() == 0
    until(lambda: not Path(f"/proc/{asking[0]}").exists())


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def test_without_a_driver_it_says_so_in_a_metric(
    exporter: Callable[..., Exporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    started = exporter()
    if started.series("stoker_exporter_nvml_up") == [({}, 1.0)]:
        pytest.skip("this machine has a real driver")
    assert started.series("stoker_exporter_gpus") == [({}, 0.0)]
    assert started.series("stoker_host_memory_total_bytes")[0][1] > 0
    until(lambda: "not found" in json.loads(started.get("/sample.json"))["exporter"]["nvml_error"].lower())


def test_what_is_wrong_with_the_command_line_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, told in (
            (["--listen", f"127.0.0.1:{port}"], "is in use"),
            (["--listen", "nonsense"], "write host:port"),
            (["--web-config", str(tmp_path / "none.yml")], "cannot be read: No such file"),
            (["--interval", "0"], "--interval must be at least"),
        ):
            command = [sys.executable, "-m", "stoker", "monitor", "serve", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("error: ")
            assert told in done.stderr
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ServeOptions(),
        ServeOptions("[::1]:1", Path("a b/web.yml"), [Path("/x"), Path("y z")], Intervals(0.5, 1.0, 2.0)),
    ],
)
def test_options_survive_the_way_to_the_server_s_process(options: ServeOptions) -> None:
    found = from_words(as_words(options))
    assert replace(found, runs=()) == replace(options, runs=())
    assert list(found.runs) == list(options.runs)


def test_where_to_listen() -> None:
    assert parse_listen("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_listen("9836") == ("127.0.0.1", 9836)
    assert parse_listen(":9836") == ("0.0.0.0", 9836)
    assert parse_listen("[::1]:1") == ("::1", 1)
    for wrong in ("", "host", "host:", "host:x", "host:70000", "1:²"):
        with pytest.raises(UserError):
            parse_listen(wrong)


def test_the_unit_runs_as_an_unprivileged_user(tmp_path: Path) -> None:
    text = unit_text("127.0.0.1:9836", tmp_path / "web.yml")
    assert f"monitor serve --listen 127.0.0.1:9836 --web-config {tmp_path}/web.yml\n" in text
    assert "\nUser=stoker-monitor\n" in text
    assert "NoNewPrivileges=yes" in text
    assert "{" not in text


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here to check the unit with")
    (tmp_path / "stoker-monitor.service").write_text(unit_text("127.0.0.1:9836", None))
    words = ["systemd-analyze", "verify", str(tmp_path / "stoker-monitor.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "stoker-monitor.service" in line]
    assert [line for line in complaints if "is not executable" not in line] == []


TASK = """
import time
import torch
from torch import nn
from torch.utils.data import TensorDataset
from stoker import make_task

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)

def task():
    data = Slow(torch.randn(512, 8), torch.randint(0, 2, (512,)))
    return make_task(nn.Linear(8, 2), data, nn.functional.cross_entropy)
"""


def _children(pid: int) -> list[int]:
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == pid]
    return sorted(found)


@pytest.mark.slow
def test_a_real_run_is_seen_stalls_and_is_killed(tmp_path: Path, exporter: Callable[..., Exporter]) -> None:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "run.yaml").write_text(
        "task: task.py:task\nduration: 100000 steps\nbatch: {global_size: 16, micro_size: 4}\n"
        f"data: {{workers: 0}}\noutput: {tmp_path / 'mine'}\nobserve: {{progress: none, tensorboard: false}}\n"
    )
    command = [sys.executable, "-m", "stoker", "train", str(tmp_path / "run.yaml"), "--processes", "2"]
    run = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = exporter()
    try:
        own = {"run": "mine", "folder": str(tmp_path / "mine")}
        until(lambda: any(value > 5 for _, value in started.series("stoker_run_step")), 120)
        assert dict(_states(started)) == {"running": own}
        assert started.series("stoker_run_micro_batch_size") == [(own, 4.0)]
        assert started.series("stoker_run_total_steps") == [(own, 100_000.0)]
        assert started.series("stoker_run_world_size") == [(own, 2.0)]
        for name in ("loss", "samples_per_second", "step_seconds", "checkpoint_age_seconds"):
            assert started.series(f"stoker_run_{name}")[0][1] > 0, name
        assert 0 < started.series("stoker_run_data_wait_ratio")[0][1] < 1
        assert started.series("stoker_run_mfu_ratio") == []
        assert started.series("stoker_run_since_step_seconds")[0][1] < 30

        second = _children(run.pid)[-1]
        os.kill(second, signal.SIGSTOP)  # rank 0 waits for it in the next collective
        before = started.series("stoker_run_step")
        until(lambda: started.series("stoker_run_since_step_seconds")[0][1] > 4, 60)
        time.sleep(1.5)
        assert started.series("stoker_run_since_step_seconds")[0][1] > 5
        assert started.series("stoker_run_step")[0][1] <= before[0][1] + 200
        assert dict(_states(started)) == {"running": own}
        os.kill(second, signal.SIGCONT)
        until(lambda: started.series("stoker_run_since_step_seconds")[0][1] < 2, 60)

        os.kill(run.pid, signal.SIGSTOP)  # or it would tell that its ranks failed
        for rank in _children(run.pid):  # first, or they would stop in good order when it is gone
            os.kill(rank, signal.SIGKILL)
        run.kill()
        run.wait()
        until(lambda: "killed" in dict(_states(started)), 60)
        assert started.series("stoker_run_finding") == [({**own, "finding": "run-killed"}, 1.0)]
        assert started.series("stoker_run_since_step_seconds") == []
        assert started.series("stoker_run_ended_timestamp_seconds")[0][1] == pytest.approx(time.time(), abs=60)
    finally:
        for pid in [*_children(run.pid), run.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        run.wait()


def _states(started: Exporter) -> Iterator[tuple[str, Labels]]:
    for labels, value in started.series("stoker_run_state"):
        if value:
            yield labels.pop("state"), labels
