"""Rules that combine facts, by themselves."""

from __future__ import annotations

import pytest

from stoker.doctor.catalogue import load_catalogue
from stoker.doctor.log import diagnose_text
from stoker.doctor.reasoning import Facts, Quote, Verdict, rank
from stoker.doctor.rules.memory import OutOfMemory, read_out_of_memory
from stoker.doctor.rules.topology import read_matrix
from stoker.doctor.scanning import scan_blocks

GIB, MIB = 1024.0**3, 1024.0**2


def facts_of(log: str, context: str = "") -> Facts:
    catalogue = load_catalogue()
    return Facts(catalogue, scan_blocks([(log.encode(), 0)], catalogue), context)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (  # torch 1.0
            "Tried to allocate 20.00 MiB (GPU 0; 10.73 GiB total capacity; 9.10 GiB already allocated; "
            "12.62 MiB free; 400.00 MiB cached)",
            OutOfMemory(20 * MIB, 10.73 * GIB, 12.62 * MIB, 9.10 * GIB, 400 * MIB, None, 0),
        ),
        (  # torch 1.5 to 2.0
            "Tried to allocate 2.00 GiB (GPU 1; 8.00 GiB total capacity; 5.00 GiB already allocated; "
            "0 bytes free; 7.00 GiB reserved in total by PyTorch)",
            OutOfMemory(2 * GIB, 8 * GIB, 0, 5 * GIB, 2 * GIB, None, 0),
        ),
        (  # torch 2.1 and later
            "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. "
            "Process 77 has 30.00 GiB memory in use. Including non-PyTorch memory, this process has "
            "49.00 GiB memory in use. Of the allocated memory 48.00 GiB is allocated by PyTorch, "
            "and 512.00 MiB is reserved by PyTorch but unallocated.",
            OutOfMemory(2 * GIB, 80 * GIB, 1 * GIB, 48 * GIB, 512 * MIB, 30 * GIB, 2),
        ),
        ("nothing of the kind", None),
    ],
)
def test_an_out_of_memory_message_is_read_in_every_wording(text: str, figures: OutOfMemory | None) -> None:
    assert read_out_of_memory(text) == figures


def test_a_matrix_is_read_with_its_nics_and_affinities() -> None:
    log = (
        "        GPU0    GPU1    GPU2    NIC0    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      PIX     SYS     PIX     0-15    0\n"
        "GPU1    PIX      X      SYS     PXB     0-15    0\n"
        "GPU2    SYS     SYS      X      SYS     16-31   1\n"
        "NIC0    PIX     PXB     SYS      X\n"
    )
    matrix = read_matrix(facts_of(log).hits("topology_row"))
    assert matrix.links == {(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"}
    assert matrix.nic_links == {"NIC0": ["PIX", "PXB", "SYS"]}
    assert matrix.affinities == {0: "0-15", 1: "0-15", 2: "16-31"}


def test_collectives_of_different_groups_are_not_compared() -> None:
    line = (
        "[PG ID {pg} PG GUID {pg} Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4, NumelOut=4, Timeout(ms)=600000)"
    )
    log = "\n".join([line.format(pg=0, rank=0, seq=9, op="ALLREDUCE"), line.format(pg=1, rank=1, seq=3, op="SEND")])
    assert [finding.cause for finding in diagnose_text(log).findings] == ["nccl-watchdog-timeout"]


@pytest.mark.parametrize(
    ("action", "found"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", True),
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", True),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", False),
    ],
)
def test_xid_154_asks_for_action_unless_it_clears(action: str, found: bool) -> None:
    log = f"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed {action}"
    assert [one.cause for one in diagnose_text(log).findings] == ["xid-154-recovery-action"] * found


def test_an_unknown_xid_is_not_guessed() -> None:
    assert not diagnose_text("NVRM: Xid (PCI:0000:3b:00): 999, something new").findings


def test_the_root_goes_before_what_follows_from_it_even_if_that_came_first() -> None:
    log = (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)\n"
        "w1:8:9 [3] NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes, error: No space left\n"
    )
    first, second = diagnose_text(log).findings
    assert (first.cause, first.follows_from) == ("container-shm-too-small", "")
    assert (second.cause, second.follows_from) == ("nccl-watchdog-timeout", "container-shm-too-small")
    assert second.confidence < first.confidence


def test_equals_are_ordered_by_where_they_show_first() -> None:
    signatures = load_catalogue().signatures
    late, early = (
        Verdict(cause, 0.9, (Quote(line, "x"),)) for cause, line in (("disk-full", 9), ("too-many-open-files", 2))
    )
    assert [one.cause for one in rank([late, early], signatures)] == ["too-many-open-files", "disk-full"]


def test_nothing_is_said_below_a_confidence() -> None:
    assert rank([Verdict("disk-full", 0.2, (Quote(1, "x"),))], load_catalogue().signatures) == []


def test_memory_does_not_grow_with_the_log() -> None:
    catalogue = load_catalogue()
    line = b"[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    scan = scan_blocks(((line * 2000, 0) for _ in range(5)), catalogue)
    assert scan.lines == 10_000
    assert all(len(hits) <= catalogue.patterns[number].limit for number, hits in scan.hits.items())


def test_lines_are_counted_over_blocks() -> None:
    message = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    blocks = [(b"a\n" * 1000, 0), (b"b\n" * 1000 + message, 0)]
    scan = scan_blocks(blocks, load_catalogue())
    assert {hit.line for hits in scan.hits.values() for hit in hits} == {2001}
