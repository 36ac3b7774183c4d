"""What is taken out of a text, and what is left in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.doctor.bundle.masking import KINDS, Masker
from stoker.doctor.bundle.shapes import is_pseudonym


def masked(text: str, name: str = "", **known: list[str]) -> str:
    masker = Masker()
    for kind, values in known.items():
        masker.know(kind, values)  # type: ignore[arg-type]
    masker.learn(text, name)
    return masker.mask(text, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 10.1.2.3 b 10.1.2.4 c 10.1.2.3", "a ip-1 b ip-2 c ip-1"),
        ("inet 192.168.7.9/24 brd 192.168.7.255", "inet ip-1/24 brd ip-2"),
        ("eth0:10.1.2.3<0> 10.1.2.3:29500", "eth0:ip-1<0> ip-1:29500"),
        ("::ffff:10.1.2.3 and fe80::a1b2:c3d4:e5f6:1", "::ffff:ip-1 and fe80::ip-2"),
        ("link/ether b8:59:9f:aa:bb:c1 brd ff:ff:ff:ff:ff:ff", "link/ether mac-1 brd ff:ff:ff:ff:ff:ff"),
        ("GPU-5ef3a1b2-90ab-4cde-8f01-23456789abcd", "GPU-uuid-1"),
        ("Serial Number                     : 1654922007123", "Serial Number                     : serial-1"),
        ("Serial Number : N/A", "Serial Number : N/A"),
        ("Nov 30 08:12:01 gpunode4 kernel: x", "Nov 30 08:12:01 host-1 kernel: x"),
        ("2026-11-30T08:12:01+08:00 gpunode4 kernel: x", "2026-11-30T08:12:01+08:00 host-1 kernel: x"),
        ("gpunode4:88:121 [3] NCCL INFO x", "host-1:88:121 [3] NCCL INFO x"),
        ("/home/petra/x and PETRA", "/home/user-1/x and user-1"),
        ("password=hunter2hunter2", "password=secret-1"),
        ('"api_key": "abcdef123456"', '"api_key": secret-1'),
        ("postgres://db:pw12345678@db1/x", "postgres://secret-1@host-1/x"),
        ("mail bob@example.org", "mail mail-1"),
    ],
)
def test_names_become_pseudonyms(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.",
        "0000:3b:00.0 3D controller, 00000000:3B:00.0",
        "listening on 127.0.0.1:29500 and ::1 and 0.0.0.0",
        "nvidia-cudnn-cu12==9.1.0.70 nvidia-curand-cu12  10.3.5.147",
        "cuDNN version 9.1.0.70, driver 535.104.05",
        "nvidia_cublas_cu12-12.4.5.8.dist-info",
        "[00:01<00:59] 12:34:56 step 10: tokens=4096 pad_token_id: 0 num_tokens 3e9",
        "c10::Error at::Tensor aten::add std::vector",
        "see https://docs.nvidia.com/x and https://github.com/pytorch/pytorch/issues/1",
        "/home/ubuntu/train.py as root",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
        "forward pass: 0.25s  bypass=1  key: value  monkey=banana1",
        "00000000-0000 MAC 00:00:00:00:00:00",
        "Serial: console",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert masked(text) == text


def test_a_full_name_and_its_short_form_are_one_host() -> None:
    assert masked("train07.a.net train07 TRAIN07", host=["train07.a.net"]) == "host-1 host-1 host-1"


def test_the_other_machines_of_a_row_are_hosts_too() -> None:
    text = masked("train07 train12 train[01-04] training train1", host=["train07"])
    assert text == "host-1 host-2 host-3 training train1"


def test_a_short_or_common_name_is_no_word_to_replace() -> None:
    assert (
        masked("vm.max_map_count ubuntu server", host=["vm", "server"], user=["ubuntu"])
        == "vm.max_map_count ubuntu server"
    )


def test_a_secret_of_a_variable_is_replaced_wherever_it_stands() -> None:
    masker = Masker()
    masker.know_environment({"MY_API_KEY": "qwertz-123", "LANG": "C.UTF-8", "USER": "petra"})
    assert masker.mask("x qwertz-123y petra C.UTF-8") == "x secret-1y user-1 C.UTF-8"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("machine/proc/sys/kernel/hostname", "host"),
        ("machine/etc/machine-id", "id"),
        ("machine/sys/class/dmi/id/board_serial", "serial"),
        ("machine/sys/class/infiniband/mlx5_0/node_guid", "guid"),
    ],
)
def test_files_that_hold_one_name_are_replaced_whole(name: str, kind: str) -> None:
    assert masked("whatever-it-is\n", name) == f"{kind}-1\n"
    assert masked("\n", name) == "\n"


def test_lists_of_packages_keep_their_versions() -> None:
    assert (
        masked('"cuda-toolkit": "13.0.3.0"', "machine/.stoker/commands/python_own.txt") == '"cuda-toolkit": "13.0.3.0"'
    )


@given(st.text())
def test_any_text_is_masked_twice_as_once(text: str) -> None:
    masker = Masker()
    masker.learn(text)
    once = masker.mask(text)
    assert all(is_pseudonym(f"{kind}-1") for kind in KINDS)
    assert masker.mask(once).count("\n") == once.count("\n") or "-----BEGIN" in text


@given(st.ip_addresses())
def test_no_address_survives_but_loopback(address: object) -> None:
    text = masked(f"peer {address} left")
    private = not (address.is_loopback or address.is_unspecified or str(address).startswith("255."))  # type: ignore[attr-defined]
    assert (str(address) not in text) == private
