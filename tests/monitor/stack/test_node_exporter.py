"""The names of node_exporter in the tables are those that it really exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from stoker.monitor.rules.tables import sources
from tests.monitor.stack.endpoint import until
from tests.monitor.stack.test_live import free_ports

PROGRAM = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")


@pytest.mark.skipif(PROGRAM is None, reason="node_exporter is not installed: scripts/services installs it")
def test_node_exporter_s_names() -> None:
    address = f"127.0.0.1:{free_ports(('node',))['node']}"
    command = [str(PROGRAM), f"--web.listen-address={address}", "--collector.disable-defaults"]
    command += ["--collector.cpu", "--collector.filesystem", "--collector.meminfo"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def scraped() -> str:
            try:
                with urlopen(f"http://{address}/metrics", timeout=5) as answer:
                    return answer.read().decode()
            except URLError:
                return ""

        exported = set(re.findall(r"^(node_\w+)", until(scraped, 20), re.MULTILINE))
    finally:
        process.terminate()
        process.wait(10)
    used = {name for row in sources() for name in re.findall(r"\bnode_\w+", row.expr)}
    assert used
    assert used <= exported
