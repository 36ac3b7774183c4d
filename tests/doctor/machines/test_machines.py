"""Simulated machines give exactly the right findings: `golden/<name>.txt` holds what `stoker doctor` says of each.

After a change that is meant: `python -m pytest tests/doctor/machines --write-golden`, then look at the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.doctor.checks.run import examine
from stoker.doctor.checks.show import render_html, render_text
from stoker.host.recording import Recording
from stoker.host.snapshot import read_snapshot, snapshot_from_json
from stoker.host.tree import Tree
from tests.doctor.machines.catalogue import MACHINES

GOLDEN = Path(__file__).parent / "golden"

CAUSES = {
    "8xA100-NVSwitch": set(),
    "4x3090-PCIe": {"geforce-without-p2p", "bar1-small"},
    "2x4090": {"geforce-without-p2p"},
    "8xH100-8-NICs": set(),
    "T4-in-a-VM": {"driver-branch-ended"},
    "GPU-fallen-off-the-bus": {"gpu-fallen-off-bus"},
    "driver-mismatch": {"driver-library-mismatch", "driver-upgraded-unattended"},
    "Secure-Boot-unsigned-module": {"secure-boot-rejects-module", "nvidia-driver-not-loaded"},
    "container-without-devices": {"container-without-gpu-devices", "container-shm-too-small"},
    "link-at-x4": {"pcie-link-degraded"},
    "thermal-throttling": {"gpu-thermal-throttling", "other-process-holds-gpu-memory"},
}
FIRST = {
    "GPU-fallen-off-the-bus": "gpu-fallen-off-bus",
    "driver-mismatch": "driver-library-mismatch",
    "Secure-Boot-unsigned-module": "secure-boot-rejects-module",
}
"""The cause that comes before all others, where there are several."""


@pytest.mark.parametrize("name", MACHINES)
def test_the_right_findings_and_no_others(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    examination = examine(read_snapshot(Tree(MACHINES[name]().write(tmp_path))))
    found = examination.of("fail", "warn", "info")
    assert {one.finding.cause for one in found} == CAUSES[name]
    assert name not in FIRST or found[0].finding.cause == FIRST[name]
    text = render_text(examination) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if request.config.getoption("--write-golden", default=False):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text(), "after a change that is meant: pytest tests/doctor/machines --write-golden"


@pytest.mark.parametrize("name", MACHINES)
def test_every_finding_can_be_acted_on(name: str, tmp_path: Path) -> None:
    for one in examine(read_snapshot(Tree(MACHINES[name]().write(tmp_path)))).of("fail", "warn"):
        assert one.finding.fix, one.check
        assert one.finding.meaning, one.check
        assert one.finding.source, one.check
        assert one.finding.evidence, one.check
        assert [step for step in one.finding.fix if re.search(r"\{[a-z_]+\}", step)] == [], "a placeholder is left"


@pytest.mark.parametrize("name", MACHINES)
def test_a_snapshot_can_be_written_and_read(name: str, tmp_path: Path) -> None:
    snapshot = read_snapshot(Tree(MACHINES[name]().write(tmp_path)))
    assert snapshot_from_json(snapshot.to_json()) == snapshot


@pytest.mark.parametrize("name", ["8xA100-NVSwitch", "container-without-devices"])
def test_a_recording_of_a_machine_reads_like_the_machine(name: str, tmp_path: Path) -> None:
    tree = Tree(MACHINES[name]().write(tmp_path / "machine"))
    recording = Recording(tree, tmp_path / "copy")
    first = read_snapshot(recording)
    recording.finish()
    second = read_snapshot(Tree(tmp_path / "copy"))
    assert examine(second).to_json() == examine(first).to_json()


def test_the_page_holds_every_finding(tmp_path: Path) -> None:
    page = render_html(examine(read_snapshot(Tree(MACHINES["driver-mismatch"]().write(tmp_path)))))
    assert "driver-library-mismatch" in page
    assert "The loaded NVIDIA kernel module is 580.82.07" in page
    assert "Not seen" in page
    assert "http-equiv" not in page
    assert 'src="http' not in page
