"""Who is missing, from stacks, RAS and dumps."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.doctor.hang import flight, ras
from stoker.doctor.hang.job import Rank
from stoker.doctor.hang.judge import Look, judge_dumps, judge_ras, judge_stacks
from stoker.doctor.hang.stacks import Frame, Stack, main_thread, refusal

TORCH = "/venv/lib/python3.12/site-packages/torch/"
REDUCE = (
    Frame("all_reduce", TORCH + "distributed/distributed_c10d.py", 3913),
    Frame("wrapper", TORCH + "distributed/c10d_logger.py", 83),
)
BARRIER = Frame("barrier", REDUCE[0].file, 1)
MAIN = Frame("main", "/home/a/train.py", 19)


def look(rank: int, *frames: Frame, state: str = "sleeping", moved: bool = False) -> Look:
    return Look(Rank(100 + rank, rank, 2), state, stack=Stack(frames) if frames else None, moved=moved)


def test_where_a_stack_stands() -> None:
    assert Stack((*REDUCE, MAIN)).place == "all_reduce, called from main (train.py:19)"
    assert Stack((MAIN,)).place == "main (train.py:19)"
    inside = Frame("wait", "/usr/lib/python3.12/threading.py", 9)
    assert Stack((inside, MAIN)).place == "main (train.py:19), in wait (threading.py:9)"
    engine = Frame("_engine_run_backward", TORCH + "autograd/graph.py", 800)
    assert Stack((engine, MAIN)).waits_in == "backward"
    launcher = Frame("run", TORCH + "distributed/elastic/agent.py", 1)
    assert Stack((launcher, MAIN)).waits_in == ""
    assert Stack(()).place == "no Python code"


@pytest.mark.parametrize(
    ("looks", "causes"),
    [
        ([look(0, *REDUCE, MAIN), look(1, MAIN)], ["rank-missing-from-collective"]),
        ([look(0, *REDUCE, MAIN), look(1, *REDUCE, MAIN)], ["all-ranks-wait-in-collective"]),
        ([look(0, *REDUCE, MAIN), look(1, BARRIER, MAIN)], ["ranks-run-different-collectives"]),
        ([look(0, *REDUCE, MAIN, moved=True), look(1, MAIN)], []),
        ([look(0, MAIN), look(1, MAIN)], []),
        ([look(0, *REDUCE, MAIN)], []),
        ([look(0), look(1)], []),
        ([look(0, *REDUCE, MAIN), look(1, MAIN, state="stopped")],
         ["rank-unresponsive", "rank-missing-from-collective"]),
    ],
    ids=["missing", "all wait", "different", "moving", "none waits", "alone", "unseen", "stopped"],
)  # fmt: skip
def test_stacks_tell_who_is_missing(looks: list[Look], causes: list[str]) -> None:
    assert [one.cause for one in judge_stacks(looks)] == causes


def test_the_missing_rank_is_quoted_first_with_its_place() -> None:
    (found,) = judge_stacks([look(0, *REDUCE, MAIN), look(1, Frame("read", "/a/data.py", 5), MAIN, state="disk sleep")])
    assert found.evidence[0].text.startswith("rank 1 (pid 101) stands in read (data.py:5), disk sleep")


def test_py_spy_is_read_and_its_refusals_are_sentences() -> None:
    threads = [
        {"thread_name": "pin", "frames": []},
        {"thread_name": "MainThread", "frames": [{"name": "f", "filename": "/a/b.py", "line": 3}]},
    ]
    assert main_thread(threads) == Stack((Frame("f", "/a/b.py", 3),))
    assert main_thread([]) == Stack(())
    assert "sudo" in refusal("Error: Permission Denied: Try running again with elevated permissions")
    assert refusal("Error: Failed to find python\n\nStack backtrace:") == "py-spy: Error: Failed to find python"


def status(counts: list[int], missing: tuple[int, ...] = (), dead: bool = False) -> str:
    """As NCCL 2.28.7 and newer answer in JSON."""
    ranks = [
        {"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
         "status": {"init_state": 0, "async_error": 0, "finalize_called": False},
         "collective_counts": {"AllReduce": count, "Broadcast": 0}}
        for rank, count in enumerate(counts)
    ]  # fmt: skip
    lost = [
        {"rank": rank, "host": "10.0.0.2", "pid": 100 + rank, "status": {"unresponsive": True, "considered_dead": dead}}
        for rank in missing
    ]
    communicator = {"hash": "0x1", "size": len(counts), "ranks": ranks, "missing_ranks": lost}
    return json.dumps({"nccl_version": "2.29.1", "communicators": [communicator], "ras": {}})


TEXT = """NCCL version 2.26.2 compiled with CUDA 12.8

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 348 on node 10.0.0.3 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 21 -- GPU 5 managed by process 348 on node 10.0.0.3

Warnings
========

#0-1 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 0 has launched up to operation 6650 -- GPU 0 managed by process 483 on node 10.0.0.1
  Rank 1 has launched up to operation 6649 -- GPU 1 (NVML 3) managed by process 484 on node 10.0.0.1
"""


@pytest.mark.parametrize(
    ("first", "second", "causes"),
    [
        (status([7, 7]), status([9, 9]), []),
        (status([7, 6]), status([9, 8]), []),
        (status([9, 6]), status([9, 6]), ["rank-missing-from-collective"]),
        (status([9], (1,)), status([9], (1,)), ["rank-unresponsive"]),
        (TEXT, TEXT, ["rank-unresponsive", "rank-missing-from-collective"]),
        ("", "", []),
        ("{]", '{"communicators": 3}', []),
    ],
    ids=["fine", "moving", "behind", "silent", "text", "empty", "damaged"],
)
def test_ras_tells_who_is_missing(first: str, second: str, causes: list[str]) -> None:
    assert [one.cause for one in judge_ras(ras.read_status(first), ras.read_status(second))] == causes


def test_ras_names_the_rank() -> None:
    (found,) = judge_ras(ras.read_status(status([1], (3,), dead=True)), ras.read_status(status([1], (3,), dead=True)))
    assert found.evidence[0].text == "rank 3 (pid 103 on host 10.0.0.2) is considered dead"
    text = ras.read_status(TEXT)
    assert text.version == "2.26.2"
    assert [(peer.rank, peer.trouble) for peer in text.silent] == [(-1, "is considered dead"), (21, "does not answer")]


@given(st.text())
def test_any_answer_of_ras_is_read(text: str) -> None:
    ras.read_status(text)
    ras.read_status("{" + text)
    ras.address_of(text)


@contextmanager
def server(answers: dict[str, str]) -> Iterator[tuple[str, int]]:
    """A stand-in for RAS that speaks its protocol; the real one needs an NCCL job on GPUs."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            for line in stream:
                stream.write(answers[line.decode().split()[0]].encode())
                stream.flush()
                if line.startswith(b"VERBOSE"):
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        thread.join(5)
        listener.close()


@pytest.mark.parametrize("form", ["OK\n", "ERROR: Unknown command set format json\n"], ids=["json", "text only"])
def test_the_client_speaks_the_protocol(form: str) -> None:
    answer = status([1, 1]) if form == "OK\n" else TEXT
    says = {"CLIENT": "SERVER PROTOCOL 2\n", "TIMEOUT": "OK\n", "SET": form, "VERBOSE": answer}
    with server(says) as address:
        assert ras.query(address) == answer


def test_something_else_at_that_port_and_nothing_there() -> None:
    with server({"CLIENT": "HTTP/1.1 400 Bad Request\n"}) as address:
        assert "not NCCL RAS" in str(ras.query(address))
    assert isinstance(ras.query(address), OSError)
    assert ras.address_of("[::1]:4711") == ("::1", 4711)
    assert ras.address_of("") == ("localhost", 28028)


def dump(*operations: str, ranks: str = "[0, 1]") -> dict[str, Any]:
    entries = [
        {"process_group": ("0", "default_pg"), "collective_seq_id": number, "profiling_name": operation,
         "input_sizes": [[4]], "state": "scheduled", "is_p2p": False,
         "frames": [{"name": "all_reduce", "filename": "/x/torch/distributed/d.py", "line": 1},
                    {"name": "main", "filename": "/a/train.py", "line": 9}]}
        for number, operation in enumerate(operations, 1)
    ]  # fmt: skip
    return {"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": ranks}}, "entries": entries}


@pytest.mark.parametrize("as_json", [False, True])
def test_dumps_are_found_read_and_compared(as_json: bool, tmp_path: Path) -> None:
    for rank, operations in enumerate([("nccl:all_reduce", "nccl:barrier"), ("nccl:all_reduce",)]):
        value = dump(*operations, ranks="[0, 1, 2]")
        data = json.dumps(value).encode() if as_json else pickle.dumps(value, protocol=2)
        (tmp_path / f"trace_{rank}").write_bytes(data)
    (tmp_path / "trace_x").write_bytes(b"")
    found = [flight.read_dump(path, rank) for rank, path in flight.find_dumps(str(tmp_path / "trace_"))]
    dumps = [one for one in found if isinstance(one, flight.Dump)]
    (comparison,) = flight.compare(dumps)
    assert comparison.undumped == (2,)
    (suspicion,) = judge_dumps([comparison])
    assert suspicion.cause == "rank-missing-from-collective"
    assert (
        suspicion.evidence[0].text == "rank 1 has entered up to number 1: nccl:all_reduce [[4]] from main (train.py:9)"
    )


def test_different_collectives_at_one_number() -> None:
    dumps = [
        flight.dump_of(dump("nccl:all_reduce", name), rank, "")
        for rank, name in enumerate(["nccl:barrier", "nccl:broadcast"])
    ]
    (suspicion,) = judge_dumps(flight.compare(dumps))
    assert suspicion.cause == "ranks-run-different-collectives"
    assert [item.text[:16] for item in suspicion.evidence] == ["rank 0, number 2", "rank 1, number 2"]


class _Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (Path.touch, (Path("/tmp/stoker-evil"),))  # type: ignore[return-value]


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps(_Evil()))
    said = flight.read_dump(path, 0)
    assert isinstance(said, str)
    assert "only plain values are read" in said
    assert not Path("/tmp/stoker-evil").exists()


@given(st.binary(max_size=300))
def test_any_bytes_as_a_dump_are_answered(data: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        assert isinstance(flight.read_dump(Path(file.name), 0), str | flight.Dump)
