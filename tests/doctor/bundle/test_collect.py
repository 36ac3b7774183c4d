"""Bundles: what is in them, what must not be, and what is answered to them anywhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from stoker.doctor.bundle.collect import collect
from stoker.doctor.bundle.diagnose import compare_bundles, diagnose_bundle
from stoker.doctor.bundle.form import FOLDER
from stoker.errors import UserError
from stoker.host.live import Live
from stoker.host.tree import Tree
from tests.doctor.bundle.planted import ENVIRON, KEPT, PLANTED, plant

ROOT = Path(__file__).parents[3]


def texts_of(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as archive:
        members = [(one.name, archive.extractfile(one)) for one in archive.getmembers()]
        return {name: file.read().decode() for name, file in members if file is not None}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    tree, run = plant(folder)
    return collect(Tree(tree), folder / "node.tar.gz", run, ENVIRON).path


def test_nothing_that_was_planted_is_in_the_bundle(planted: Path) -> None:
    everything = "\n".join(f"{name}\n{text}" for name, text in texts_of(planted).items()).lower()
    found = [value for values in PLANTED.values() for value in values if value.lower() in everything]
    assert found == []


def test_what_a_diagnosis_needs_is_in_the_bundle(planted: Path) -> None:
    texts = texts_of(planted)
    everything = "\n".join(texts.values())
    assert [text for text in KEPT if text not in everything] == []
    log = texts[f"{FOLDER}/run/logs/rank1.log"]
    host = log.splitlines()[0].split()[3]
    assert host.startswith("host-")
    assert log.splitlines()[1].startswith(f"{host}:812:940 [0] NCCL INFO")


def test_the_bundle_says_what_was_masked(planted: Path) -> None:
    counts = json.loads(texts_of(planted)[f"{FOLDER}/manifest.json"])["masked"]
    assert set(counts) >= set(PLANTED)
    assert all(count > 0 for count in counts.values())


def test_the_bundle_is_its_owner_s_alone_and_holds_plain_files(planted: Path) -> None:
    assert stat.S_IMODE(planted.stat().st_mode) == 0o600
    with tarfile.open(planted) as archive:
        assert all(one.isreg() and one.name.startswith(f"{FOLDER}/") for one in archive)


def test_a_bundle_is_diagnosed_like_its_machine(planted: Path) -> None:
    answer = diagnose_bundle(planted)
    assert answer.is_wrong
    assert answer.run is not None
    assert answer.run.findings[0].cause == "gpu-fallen-off-bus"  # its log has the Xid that explains the rest
    logs = [finding.cause for finding in answer.logs]
    assert logs[0] == "gpu-fallen-off-bus"
    assert answer.run.state == "failed"
    assert answer.examination.snapshot.system.kernel == "5.15.0-91-generic"
    assert "In its logs:" in answer.text()
    assert json.loads(json.dumps(answer.to_json()))["bundle"] == "node.tar.gz"


def test_this_machine(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    collected = collect(Live(), tmp_path / "here.tar.gz", environ={"HF_TOKEN": "planted-token-value"})
    assert collected.size == (tmp_path / "here.tar.gz").stat().st_size
    assert "Masked" in collected.text()
    name = os.uname().nodename
    if len(name) >= 4:
        assert name not in "\n".join(texts_of(collected.path).values())
    diagnose_bundle(collected.path).text()


def test_a_bundle_is_never_written_over(planted: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is there already"):
        collect(Live(), planted)
    with pytest.raises(UserError, match="does not exist"):
        collect(Live(), tmp_path / "none" / "b.tar.gz")
    with pytest.raises(UserError, match="no run folder"):
        collect(Live(), tmp_path / "b.tar.gz", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_several_bundles_are_compared_by_their_file_names(tmp_path: Path) -> None:
    paths: list[Path] = []
    for number in range(1, 5):
        tree, _ = plant(tmp_path / str(number))
        (tree / "proc/driver/nvidia").mkdir(parents=True)
        version = "550.54.15" if number == 3 else "570.86.15"
        text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        (tree / "proc/driver/nvidia/version").write_text(text)
        paths.append(collect(Tree(tree), tmp_path / f"node{number}.tar.gz", environ={}).path)
    answer = compare_bundles(paths)
    assert [(one.what, one.odd) for one in answer.differences] == [("driver", ("node3",))]
    (finding,) = answer.findings
    assert finding.cause == "node-differs-from-the-others"
    assert finding.evidence[0].text == "driver: node3 has 550.54.15, the 3 others have 570.86.15"
    assert "4 machines compared." in answer.text()


@pytest.mark.slow
def test_one_file_runs_on_a_bare_python(tmp_path: Path) -> None:
    """Isolated (-I), and without site-packages (-S)."""
    archive = tmp_path / "doctor.pyz"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "build_doctor_pyz.py"), str(archive)], check=True)
    base = Path(sys.base_prefix) / "bin" / "python3"

    def run(*words: str, given: str = "") -> tuple[int, str, str]:
        command = [str(base), "-I", "-S", str(archive), *words]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
        )
        return done.returncode, done.stdout, done.stderr

    _, tree_run = plant(tmp_path)
    code, out, err = run("collect", "--out", "b.tar.gz", "--run", str(tree_run))
    assert (code, err) == (0, "")
    assert "Masked" in out
    code, out, err = run("b.tar.gz")
    assert (code, err) == (1, "")
    assert "gpu-fallen-off-bus" in out
    assert run(str(tree_run), "--format", "json")[0] == 1
    code, out, _ = run("log", "-", "--lang", "zh", given="CUDA error: uncorrectable ECC error encountered\n")
    assert code == 1
    assert "uncorrectable-ecc-error" in out
    code, out, err = run()
    assert code in (0, 1)
    assert "checks:" in out
    assert run("nothing-here")[0] == 2
    assert run("hang")[2].startswith("error: name the job")
    assert "no module" not in err.lower()
