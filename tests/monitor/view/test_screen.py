from __future__ import annotations

from stoker.monitor.model import Exporter, Gpu, GpuProcess, Host, MigInstance
from stoker.monitor.view import screen_of, words_of
from stoker.monitor.view.screen import Badge, Reading, Screen
from stoker.report.figures import UNKNOWN
from tests.monitor.samples import GIB, TIME, gpu, machine, moment, run

WORDS = words_of("en")


def screen(*gpus: Gpu, seconds: int = 0, **changed: object) -> Screen:
    return screen_of(moment(machine(*gpus, **changed), seconds=seconds), WORDS)  # type: ignore[arg-type]


def reading(readings: tuple[Reading, ...], name: str) -> Reading:
    return next(one for one in readings if one.name == name)


def test_gpus_stand_with_the_run_that_uses_them() -> None:
    shown = screen(gpu(0), gpu(1), gpu(2), runs=(run(gpus=("0", "2")),))
    assert [one.index for one in shown.runs[0].gpus] == ["0", "2"]
    assert [one.index for one in shown.free] == ["1"]
    assert [one.index for one in shown.gpus] == ["0", "1", "2"]


def test_a_run_that_ended_holds_no_gpu() -> None:
    shown = screen(gpu(0), runs=(run(state="finished", ended_time=TIME, since_step_seconds=None),))
    assert shown.runs[0].gpus == ()
    assert [one.index for one in shown.free] == ["0"]


def test_runs_that_go_on_come_first_in_the_order_of_their_gpus() -> None:
    runs = (
        run(run="old", folder="/old", state="finished", ended_time=TIME - 900, gpus=()),
        run(run="new", folder="/new", state="failed", ended_time=TIME - 90, gpus=()),
        run(run="second", folder="/2", gpus=("10", "4")),
        run(run="first", folder="/1", gpus=("2", "3")),
        run(run="cpu", folder="/3", gpus=()),
    )
    assert [one.name for one in screen(runs=runs).runs] == ["first", "second", "cpu", "new", "old"]


def test_what_is_unknown_is_a_dash_and_has_no_history() -> None:
    shown = screen(Gpu(gpu="0", uuid="GPU-0"))
    assert [(one.text, one.note, one.trend) for one in shown.gpus[0].main] == [(UNKNOWN, "", None)] * 5
    assert [one.name for one in shown.gpus[0].more] == ["uuid"]
    assert shown.unseen == ("Nothing was measured on GPU 0.",)
    assert shown.gpus[0].badges == ()
    assert [one.name for one in shown.summary] == ["gpus_busy", "runs"]


def test_a_value_has_its_series_and_what_to_compare_it_with() -> None:
    main = screen(gpu(3)).gpus[0].main
    memory, clock = reading(main, "memory_used_bytes"), reading(main, "sm_clock_hertz")
    assert (memory.text, memory.note) == ("60 GiB", "of 80 GiB")
    assert (memory.value, memory.series) == (60 * GIB, 'stoker_gpu_memory_used_bytes{gpu="3"}')
    assert (clock.text, clock.note) == ("1,900 MHz", "of 1,980")


def test_the_last_hour_is_told_in_words_too() -> None:
    trend = reading(screen(gpu(), seconds=60).gpus[0].main, "temperature_celsius").trend
    assert trend is not None
    assert trend.title == "Temperature, last hour: lowest 60 °C, highest 60 °C"
    assert (trend.low, trend.high) == (20, 87), "the axis ends where the GPU is slowed down"


def test_a_finding_marks_the_value_and_the_gpu_that_it_is_about() -> None:
    shown = screen(gpu(temperature_margin_celsius=3), gpu(1))
    hot, well = shown.gpus
    assert reading(hot.main, "temperature_celsius").level == "warn"
    assert hot.badges == (Badge("hot", "warn"),)
    assert well.badges == (Badge("busy", "good"),)
    assert shown.verdict == Badge("1 finding", "warn")


def test_a_hung_run_marks_its_gpus_as_hung_and_promises_no_end() -> None:
    shown = screen(gpu(utilization_ratio=1.0), runs=(run(since_step_seconds=400.0),))
    assert [badge.text for badge in shown.runs[0].badges] == ["running", "hung"]
    assert [badge.text for badge in shown.gpus[0].badges] == ["hung"]
    assert shown.runs[0].progress_text == "step 100 of 1,000 · 10 %"
    healthy = screen(gpu(), runs=(run(),))
    assert healthy.runs[0].progress_text == "step 100 of 1,000 · 10 % · about 15 min left"


def test_a_divided_gpu_has_no_utilisation_and_is_seen_all_the_same() -> None:
    parts = (MigInstance(instance="1", profile="3g.40gb", memory_used_bytes=GIB, memory_total_bytes=40 * GIB),)
    shown = screen(gpu(utilization_ratio=None, mig_mode=1, mig_instances=parts))
    assert shown.unseen == ()
    assert reading(shown.gpus[0].more, "mig_instances").text == "3g.40gb: 1 GiB of 40 GiB"


def test_two_errors_are_two_marks() -> None:
    shown = screen(gpu(xid_errors={"79": 1, "48": 1}, xid_last_time={"79": TIME, "48": TIME}))
    assert [badge.text for badge in shown.gpus[0].badges] == ["Xid 79", "Xid 48"]


def test_a_lost_gpu_is_shown_as_lost_and_not_left_out() -> None:
    shown = screen(gpu(), Gpu(gpu="1", uuid="GPU-1", lost=True))
    assert [badge.text for badge in shown.gpus[1].badges] == ["lost"]
    assert shown.verdict.level == "bad"


def test_without_a_driver_it_says_that_gpus_could_not_be_looked_at() -> None:
    shown = screen(exporter=Exporter(version="0", nvml_up=0, nvml_error="NVML Shared Library Not Found"))
    assert shown.unseen == ("GPUs could not be looked at: NVML Shared Library Not Found.",)
    assert shown.verdict == Badge("not all could be seen", "calm"), "unknown is not fine"


def test_processes_are_told_with_their_place_and_run() -> None:
    processes = (
        GpuProcess(pid=1, process="small", memory_bytes=1 * GIB, container="0123456789ab", slurm_job="7"),
        GpuProcess(pid=2, process="large", memory_bytes=9 * GIB, run="/runs/a"),
        GpuProcess(pid=3, process="secret"),
    )
    shown = screen(gpu(processes=processes), runs=(run(),)).processes
    assert [(one.name, one.memory, one.place, one.run) for one in shown] == [
        ("large", "9 GiB", "", "a"),
        ("small", "1 GiB", "0123456789ab · Slurm 7", ""),
        ("secret", UNKNOWN, "", ""),
    ]


def test_names_cannot_steer_a_terminal() -> None:
    processes = (GpuProcess(pid=1, process="\x1b[31mred\x07", user="\x1b]0;title\x07a"),)
    shown = screen(gpu(model="\x1b[2JH100", processes=processes), runs=(run(run="\x1b[1ma", task="\x00t"),))
    told = repr(shown)
    assert "\\x1b" not in told
    assert "\\x07" not in told
    assert "\\x00" not in told


def test_findings_keep_their_anchor_while_others_come_and_go() -> None:
    alone = screen(gpu(temperature_margin_celsius=3)).findings
    both = screen(gpu(temperature_margin_celsius=3), gpu(1, lost=True)).findings
    assert alone[0].anchor == both[1].anchor
    assert len({one.anchor for one in both}) == 2


def test_the_host_is_shown_as_far_as_it_is_known() -> None:
    host = Host(memory_total_bytes=100 * GIB, memory_available_bytes=40 * GIB, shm_size_bytes=GIB, shm_used_bytes=0.0)
    shown = screen(host=host).host_readings
    assert [(one.name, one.text, one.note) for one in shown] == [
        ("main_memory_used_bytes", "60 GiB", "of 100 GiB"),
        ("shm_used_bytes", "0 B", "of 1 GiB"),
    ]
