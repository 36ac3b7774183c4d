"""Reading this machine, copies of machines, and making copies."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.host import live
from stoker.host.live import Live
from stoker.host.recording import Recording
from stoker.host.source import Output, Unreadable, command_name
from stoker.host.tree import Tree
from stoker.host.variables import matters


def test_live_reads_files_that_have_no_size() -> None:
    text = Live().read("/proc/self/status")
    assert isinstance(text, str)
    assert text.startswith("Name:")


def test_live_says_why_it_could_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Live().read("/no/such") == Unreadable("missing", "no such file or directory")
    assert Live().read(f"{tmp_path}/pipe") == Unreadable("failed", "not a regular file")
    assert Live().read(str(tmp_path)) == Unreadable("failed", "not a regular file")
    assert Live().read("/null\0byte") == Unreadable("missing", "no such file or directory")
    assert Live().run(["no-such-command"]) == Unreadable("missing", "no-such-command is not installed")


def test_the_tail_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READ_LIMIT", 4)
    (tmp_path / "log").write_text("abcdefgh")
    assert (Live().read(f"{tmp_path}/log"), Live().read(f"{tmp_path}/log", tail=True)) == ("abcd", "efgh")


def test_a_command_speaks_english_and_gives_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert Live().run(["sh", "-c", "echo $LC_ALL; echo no >&2; exit 3"]) == Output("C\n", "no\n", 3)
    assert Live().run(["sh"], script="echo from the script") == Output("from the script\n")


def test_a_command_that_hangs_is_left_with_its_children() -> None:
    began = time.monotonic()
    found = Live().run(["sh", "-c", "sleep 60 & sleep 60"], timeout=0.2)
    assert found == Unreadable("timeout", "sh did not answer within 0.2 s")
    assert time.monotonic() - began < 2


def test_variables_with_secrets_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HF_TOKEN", "x")
    monkeypatch.setenv("NVIDIA_API_KEY", "x")
    found = Live().environment()
    assert isinstance(found, dict)
    assert found["NCCL_DEBUG"] == "INFO"
    assert not {"HF_TOKEN", "NVIDIA_API_KEY", "HOME"} & found.keys()
    assert not matters("TF_VAR_db")


def test_a_recording_reads_like_what_it_recorded(tmp_path: Path) -> None:
    machine, copy = tmp_path / "machine", tmp_path / "copy"
    (machine / "proc").mkdir(parents=True)
    (machine / "proc/modules").write_text("nvidia 1 0 - Live 0x0\n")
    (machine / "proc/link").symlink_to("/proc/modules")
    (machine / ".stoker/commands").mkdir(parents=True)
    (machine / ".stoker/commands/lspci.txt").write_text("out")
    (machine / ".stoker/commands/lspci.err").write_text("err")
    index = {"taken": "2026-11-30T12:00:00+00:00", "codes": {"lspci": 1}, "opens": ["/dev/nvidia0"],
             "unreadable": {"open:/dev/nvidia1": ["denied", "operation not permitted"]},
             "environment": {"NCCL_DEBUG": "INFO"}}  # fmt: skip
    (machine / ".stoker/index.json").write_text(json.dumps(index))

    def ask(source: Tree | Recording) -> list[object]:
        return [
            source.read("/proc/modules"), source.read("/proc/none"), source.read("/sys/none"), source.names("/proc"),
            source.names("/none"), source.link("/proc/link"), source.link("/proc/modules"),
            source.can_open("/dev/nvidia0"), source.can_open("/dev/nvidia1"), source.environment(), source.taken(),
            source.run(["lspci"]), source.run(["dmesg"]), source.read("/proc/link"),
        ]  # fmt: skip

    first = Tree(machine)
    recording = Recording(first, copy)
    answers = ask(recording)
    recording.finish()
    assert answers == ask(first) == ask(Tree(copy))
    assert answers[1] == Unreadable("missing", "no such file or directory")
    assert answers[2] == Unreadable("unrecorded", "not in the copy")
    assert answers[11] == Output("out", "err", 1)
    assert Tree(copy).read("/proc/never-asked") == Unreadable("unrecorded", "not in the copy")


def test_links_of_a_tree_stay_inside_it(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/real").write_text("inside")
    (root / "etc/absolute").symlink_to(outside)
    (root / "etc/climbing").symlink_to("../../../secret")
    (root / "etc/good").symlink_to("/etc/real")
    (root / "etc/loop").symlink_to("loop")
    tree = Tree(root)
    assert tree.read("/etc/good") == "inside"
    for path in ("/etc/absolute", "/etc/climbing", "/etc/loop", "/../secret"):
        assert isinstance(tree.read(path), Unreadable)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no index of a recorded machine"),
        ("[]", "no index of a recorded machine"),
        ('{"unreadable": {"read:/x": 1}}', "no index of a recorded machine"),
        ('{"lists": []}', "no index of a recorded machine"),
        ('{"format": 99}', "written in format 99, and this stoker knows 1: use a newer stoker"),
    ],
)
def test_an_index_that_cannot_be_read(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / ".stoker").mkdir()
    (tmp_path / ".stoker/index.json").write_text(content)
    with pytest.raises(UserError, match=message):
        Tree(tmp_path)


def test_a_tree_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a folder"):
        Tree(tmp_path / "none")


def test_names_of_commands() -> None:
    assert command_name(["/usr/bin/nvidia-smi", "topo", "-m"]) == "nvidia-smi_topo_-m"
    assert command_name(["sh", "-c", "a/b c"]) == "sh_-c_a-b-c"
