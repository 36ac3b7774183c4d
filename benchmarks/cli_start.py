"""How long `stoker --help` takes, beside importing the two libraries that it is made with.

python benchmarks/cli_start.py [--json]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from common import Figure, machine, report

REPEATS = 25
COMMANDS = {
    "libraries": [sys.executable, "-c", "import typer, rich"],
    "stoker": [sys.executable, "-m", "stoker", "--help"],
}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, command in COMMANDS.items():  # interleaved, so that both meet the same disturbances
            times[name].append(seconds(command))
    middle = {name: statistics.median(values) for name, values in times.items()}
    figures = [
        Figure("stoker --help / import typer, rich", middle["stoker"] / middle["libraries"], "ratio", 1.5, False),
        Figure("stoker --help", 1000 * middle["stoker"], "ms", None, False),
        Figure("import typer, rich", 1000 * middle["libraries"], "ms", None, False),
    ]
    report(figures, machine("typer", "rich"), as_json=options.json)


if __name__ == "__main__":
    main()
