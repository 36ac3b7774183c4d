"""The same messages in the wrappings that launchers, log drivers and terminals put around them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from stoker.doctor.build import read_causes
from stoker.doctor.lines import Origin, clean, is_command, origin_of, without_prefix
from stoker.doctor.log import diagnose_text

SAMPLES = [
    (cause["id"], sample) for cause in read_causes() if cause["shown_by"] == "log" for sample in cause["positive"]
]


def each_line(prefix: str) -> Callable[[str], str]:
    return lambda log: "\n".join(prefix + line for line in log.split("\n"))


def docker_json(log: str) -> str:
    return "\n".join(json.dumps({"log": line + "\n", "stream": "stderr"}) for line in log.split("\n"))


def broken(width: int) -> Callable[[str], str]:
    return lambda log: "\n".join(
        line[at : at + width] for line in log.split("\n") for at in range(0, max(1, len(line)), width)
    )


WRAPPINGS = {
    "kubelet and torchrun": each_line("2026-11-30T10:00:00.123456789Z stdout F [rank3]: "),
    "journal": each_line("Nov 30 08:12:01 host prog[123]: "),
    "journal in Chinese": each_line("11月 30 08:12:01 host prog[123]: "),
    "ray": each_line("(train_fn pid=812, ip=10.0.0.4) "),
    "python logging": each_line("2026-11-30 10:00:00,123 - train - ERROR - "),
    "docker json": docker_json,
    "broken at 100": broken(100),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapping_does_not_change_the_answer(wrapping: str) -> None:
    changed: list[tuple[str, list[str]]] = []
    for cause, sample in SAMPLES:
        log, context = (sample, "") if isinstance(sample, str) else (sample["log"], sample["context"])
        if wrapping == "docker json" and ("\t" in log or '="' in log):
            continue  # JSON escapes tabs and quotes, which tables and samples of exporters consist of
        found = [one.cause for one in diagnose_text(WRAPPINGS[wrapping](log), context=context).findings]
        if found[:1] != [cause]:
            changed.append((cause, found[:2]))
    assert not changed


@pytest.mark.parametrize(
    ("line", "rank", "host", "words"),
    [
        ("[rank3]: ValueError: x", 3, "", "ValueError: x"),
        ("[default1]:ValueError: x", 1, "", "ValueError: x"),
        ("12: ValueError: x", 12, "", "ValueError: x"),
        ("[1,7]<stderr>:ValueError: x", 7, "", "ValueError: x"),
        ("(RayTrainWorker pid=4, ip=10.0.0.7) ValueError: x", None, "10.0.0.7", "ValueError: x"),
        ("Nov  3 08:12:01 n4 kernel: NVRM: x", None, "n4", "NVRM: x"),
        ("11月 03 08:12:01 n4 kernel: NVRM: x", None, "n4", "NVRM: x"),
        ("[  901.112] NVRM: x", None, "", "NVRM: x"),
        ("[Fri Mar  3 04:44:24 2023] NVRM: x", None, "", "NVRM: x"),
        ("[五 3月  3 04:44:24 2023] NVRM: x", None, "", "NVRM: x"),
        ("n1:88:121 [3] NCCL INFO x", None, "n1", "n1:88:121 [3] NCCL INFO x"),
        ("[rank0]:[E a.cpp:1] [Rank 5] Watchdog", 5, "", "[E a.cpp:1] [Rank 5] Watchdog"),
        ("2026-11-30 10:00:00,123 - train - ERROR - x", None, "", "x"),
        ("> quoted", None, "", "quoted"),
    ],
)
def test_prefixes_say_whose_line_it_is(line: str, rank: int | None, host: str, words: str) -> None:
    assert origin_of(line) == Origin(rank, host)
    assert without_prefix(line) == words


def test_advice_is_no_evidence() -> None:
    line = "RuntimeError: x. For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    assert clean(line).rstrip() == "RuntimeError: x."


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("$ dmesg | grep -i xid", True),
        ("user@host:~$ grep 'out of memory' a.log", True),
        ("# sudo cat /var/log/syslog | less", True),
        ("$ CUDA_VISIBLE_DEVICES=0 torchrun train.py", False),
        ("RuntimeError: CUDA error", False),
    ],
)
def test_a_search_that_was_typed_is_no_evidence(line: str, typed: bool) -> None:
    assert is_command(line) is typed
