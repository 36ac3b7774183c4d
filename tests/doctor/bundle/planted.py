"""A machine and a run full of names, addresses and secrets, and the list of them."""

from __future__ import annotations

import json
from pathlib import Path

HOST, SHORT, SIBLING = "train07.ai.example-lab.net", "train07", "train12"
USER = "xaviera"
PLANTED = {
    "host": [HOST, SHORT, SIBLING, "storage3.internal"],
    "user": [USER, "quillon"],
    "ip": ["10.23.45.67", "203.0.113.77", "2001:db8:85a3::8a2e:370:7334", "fe80::42:acff:fe11:2"],
    "mac": ["b8:59:9f:aa:bb:c1", "00:25:90:FE:DC:BA"],
    "guid": ["e41d:2d03:00c9:fa2a", "0xe41d2d0300c9fa2b"],
    "serial": ["1654922007123", "SN-7788-ABC"],
    "uuid": ["5ef3a1b2-90ab-4cde-8f01-23456789abcd", "9c4b7a55-0000-1111-2222-333344445555"],
    "mail": ["xaviera.q@example-lab.net"],
    "secret": [
        "hf_AbCdEfGhIjKlMnOpQrStUv",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "hunter2!verysecret",
        "wandbkey0123456789abcdef0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "s3cr3tInUrl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.abcDEF123",
        "MIIEpAIBAAKCAQEAplanted",
        "swordfish42",
        "pinned-by-name-only-7f",
    ],
}
ENVIRON = {
    "USER": USER,
    "WANDB_API_KEY": PLANTED["secret"][3],
    "MY_SERVICE_PASSWORD": "pinned-by-name-only-7f",
    "HOSTNAME": HOST,
}

LOG = f"""Nov 30 08:12:01 {SHORT} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.
{SHORT}:812:940 [0] NCCL INFO NET/Socket : Using [0]eth0:10.23.45.67<0>
{SHORT}:812:940 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
connecting to {SIBLING} and storage3.internal, then 203.0.113.77:8443 from fe80::42:acff:fe11:2
{USER}@{SHORT}:~/work$ export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv
git clone https://quillon:s3cr3tInUrl@git.example.com/x.git with ghp_0123456789abcdefghijABCDEFGHIJ
Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.abcDEF123
db_password: 'hunter2!verysecret'  aws AKIAIOSFODNN7EXAMPLE  --token swordfish42
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAplanted
-----END RSA PRIVATE KEY-----
mailto xaviera.q@example-lab.net; link 2001:db8:85a3::8a2e:370:7334; b8:59:9f:aa:bb:c1 00:25:90:FE:DC:BA
node_guid e41d:2d03:00c9:fa2a  NodeGUID 0xe41d2d0300c9fa2b
GPU 0: NVIDIA A100 (UUID: GPU-5ef3a1b2-90ab-4cde-8f01-23456789abcd)  Serial Number : 1654922007123
used wandbkey0123456789abcdef0123456789abcdef and pinned-by-name-only-7f
loading /home/quillon/data and /mnt/nfs/home/{USER}/ckpt
"""

KEPT = (
    "Xid (PCI:0000:3b:00): 79",
    "NCCL version 2.21.5+cuda12.4",
    "GPU 0: NVIDIA A100 (UUID: GPU-uuid-",
    "127.0.0.1",
    "nvidia-cudnn-cu12==9.1.0.70",
)


def plant(folder: Path) -> tuple[Path, Path]:
    """A copied tree of a machine, and a run folder, both full of it."""
    tree, run = folder / "tree", folder / "run"
    files = {
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04"\n',
        "etc/hosts": f"127.0.0.1 localhost\n10.23.45.67 {HOST} {SHORT}\n",
        "proc/sys/kernel/hostname": f"{SHORT}\n",
        "proc/sys/kernel/osrelease": "5.15.0-91-generic\n",
        "proc/meminfo": "MemTotal: 1000 kB\n",
        "proc/cmdline": "root=UUID=9c4b7a55-0000-1111-2222-333344445555 ro\n",
        "var/log/fabricmanager.log": LOG,
        "sys/class/dmi/id/product_serial": "SN-7788-ABC\n",
        "sys/class/net/eth0/address": "b8:59:9f:aa:bb:c1\n",
        ".stoker/commands/dmesg_-T.txt": LOG + "board serial: SN-7788-ABC\n",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (run / "logs").mkdir(parents=True)
    environment = {"host": HOST, "pid": 1, "variables": {"NCCL_SOCKET_IFNAME": "eth0", "MASTER_ADDR": SIBLING}}
    (run / "environment.json").write_text(json.dumps(environment))
    (run / "events.jsonl").write_text('{"time": 1, "event": "start", "step": 0}\n')
    failure = {
        "rank": 1,
        "traceback": f'File "/home/{USER}/t.py"\nRuntimeError: CUDA error: an illegal memory access was encountered\n',
    }
    (run / "failure.json").write_text(json.dumps(failure))
    (run / "logs" / "rank1.log").write_text(LOG + "nvidia-cudnn-cu12==9.1.0.70\nlistening on 127.0.0.1\n")
    return tree, run
