"""Output of nvidia-smi for simulated GPUs, in the forms that the tool really prints (drivers 535 to 590)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Card:
    """A simulated GPU with healthy values; change a field to break it."""

    bus: str
    name: str
    brand: str
    architecture: str
    device: str
    memory: int
    power: int
    generation: int = 4
    current_generation: int = 1
    width: int = 16
    width_max: int = 16
    slot_generation: str = "N/A"
    ecc: str = "Enabled"
    temperature: int = 34
    margin: int | None = None
    hbm: int | None = None
    slowdown: int | None = 95
    limit: float | None = None
    clock: int = 210
    clock_max: int = 1410
    reasons: tuple[str, ...] = ("Idle",)
    state: str = "P8"
    use: int = 0
    bar1: int = 131072
    persistence: str = "Enabled"
    fabric: str = ""
    recovery: str = "None"
    uncorrectable: int = 0
    remap: bool = True
    nvlinks: int = 0
    nvlink_speed: str = "25 GB/s"
    node: int = 0
    slot_width: int = 16
    processes: tuple[tuple[int, str, int], ...] = field(default_factory=tuple)


def query(cards: Sequence[Card], driver: str, cuda: str) -> str:
    """`nvidia-smi -q`."""
    head = [
        "",
        "==============NVSMI LOG==============",
        "",
        line("Timestamp", "Mon Nov 30 12:00:00 2026", 0),
        line("Driver Version", driver, 0),
        line("CUDA Version", cuda, 0),
        "",
        line("Attached GPUs", str(len(cards)), 0),
    ]
    return "\n".join([*head, *(text for number, card in enumerate(cards) for text in _one(card, number))]) + "\n"


def line(key: str, value: str, indent: int) -> str:
    """A line as nvidia-smi aligns it."""
    return f"{' ' * indent}{key:<{55 - indent}}: {value}"


def _one(card: Card, number: int) -> list[str]:
    def at(indent: int, **pairs: str) -> list[str]:
        return [line(key.replace("__", " "), value, indent) for key, value in pairs.items()]

    def rows(indent: int, *pairs: tuple[str, str]) -> list[str]:
        return [line(key, value, indent) for key, value in pairs]

    domain, bus, device = card.bus.split(":")
    limit = card.limit or card.power
    return [
        f"GPU {domain:0>8}:{bus.upper()}:{device.upper()}",
        *rows(4, ("Product Name", card.name), ("Product Brand", card.brand),
              ("Product Architecture", card.architecture),
              ("Display Mode", "Enabled"), ("Persistence Mode", card.persistence), ("Addressing Mode", "None")),
        "    MIG Mode",
        *at(8, Current="Disabled" if card.hbm else "N/A", Pending="Disabled" if card.hbm else "N/A"),
        *rows(4, ("Serial Number", "N/A"), ("GPU UUID", f"GPU-{number:08d}-0000-0000-0000-000000000000"),
              ("Minor Number", str(number)), ("VBIOS Version", "92.00.45.00.05")),
        "    GPU Virtualization Mode",
        *rows(8, ("Virtualization Mode", "None")),
        *rows(4, ("GPU Recovery Action", card.recovery), ("GSP Firmware Version", "N/A")),
        "    PCI",
        *rows(8, ("Bus", f"0x{bus.upper()}"), ("Device Id", f"0x{card.device.upper()}10DE")),
        "        GPU Link Info",
        "            PCIe Generation",
        *rows(16, ("Max", str(card.generation)), ("Current", str(card.current_generation)),
              ("Device Current", str(card.current_generation)), ("Device Max", str(card.generation)),
              ("Host Max", card.slot_generation)),
        "            Link Width",
        *rows(16, ("Max", f"{card.width_max}x"), ("Current", f"{card.width}x")),
        *rows(8, ("Replays Since Reset", "0"), ("Replay Number Rollovers", "0")),
        *rows(4, ("Fan Speed", "30 %"), ("Performance State", card.state)),
        *_reasons(card),
        "    FB Memory Usage",
        *rows(8, ("Total", f"{card.memory} MiB"), ("Reserved", "500 MiB"), ("Used", "3 MiB"),
              ("Free", f"{card.memory - 503} MiB")),
        "    BAR1 Memory Usage",
        *rows(8, ("Total", f"{card.bar1} MiB"), ("Used", "1 MiB"), ("Free", f"{card.bar1 - 1} MiB")),
        *rows(4, ("Compute Mode", "Default")),
        "    Utilization",
        *rows(8, ("GPU", f"{card.use} %"), ("Memory", "0 %")),
        *_ecc(card),
        *_temperature(card),
        "    GPU Power Readings",
        *rows(8, ("Average Power Draw", "55.10 W"), ("Instantaneous Power Draw", "55.32 W"),
              ("Current Power Limit", f"{limit:.2f} W"), ("Requested Power Limit", f"{limit:.2f} W"),
              ("Default Power Limit", f"{card.power:.2f} W"), ("Min Power Limit", "100.00 W"),
              ("Max Power Limit", f"{card.power:.2f} W")),
        "    Clocks",
        *rows(8, ("Graphics", f"{card.clock} MHz"), ("SM", f"{card.clock} MHz"), ("Memory", "405 MHz")),
        "    Max Clocks",
        *rows(8, ("Graphics", f"{card.clock_max} MHz"), ("SM", f"{card.clock_max} MHz"), ("Memory", "1593 MHz")),
        "    Fabric",
        *rows(8, ("State", card.fabric or "N/A"), ("Status", "Success" if card.fabric else "N/A")),
        *_processes(card),
        "",
    ]  # fmt: skip


def _reasons(card: Card) -> list[str]:
    def word(name: str) -> str:
        return "Active" if name in card.reasons else "Not Active"

    first = ("Idle", "Applications Clocks Setting", "SW Power Cap", "HW Slowdown")
    below = ("HW Thermal Slowdown", "HW Power Brake Slowdown")
    rest = ("Sync Boost", "SW Thermal Slowdown", "Display Clock Setting")
    return [
        "    Clocks Event Reasons",
        *(line(name, word(name), 8) for name in first),
        *(line(name, word(name), 12) for name in below),
        *(line(name, word(name), 8) for name in rest),
    ]


def _ecc(card: Card) -> list[str]:
    known = card.ecc != "N/A"
    zero = "0" if known else "N/A"
    no = "No" if known and card.remap else "N/A"
    volatile = str(card.uncorrectable) if known else "N/A"
    return [
        "    ECC Mode",
        line("Current", card.ecc, 8),
        line("Pending", card.ecc, 8),
        "    ECC Errors",
        "        Volatile",
        *(line(f"SRAM {name}", zero, 12) for name in ("Correctable", "Uncorrectable Parity", "Uncorrectable SEC-DED")),
        line("DRAM Correctable", zero, 12),
        line("DRAM Uncorrectable", volatile, 12),
        "        Aggregate",
        *(line(f"SRAM {name}", zero, 12) for name in ("Correctable", "Uncorrectable Parity", "Uncorrectable SEC-DED")),
        line("DRAM Correctable", zero, 12),
        line("DRAM Uncorrectable", volatile, 12),
        line("SRAM Threshold Exceeded", no, 12),
        "    Retired Pages",
        *(line(name, "N/A", 8) for name in ("Single Bit ECC", "Double Bit ECC", "Pending Page Blacklist")),
        "    Remapped Rows" if no == "No" else line("Remapped Rows", "N/A", 4),
        *([] if no != "No" else [
            line("Correctable Error", "0", 8), line("Uncorrectable Error", "0", 8), line("Pending", "No", 8),
            line("Remapping Failure Occurred", "No", 8),
        ]),
    ]  # fmt: skip


def _temperature(card: Card) -> list[str]:
    rows = ["    Temperature", line("GPU Current Temp", f"{card.temperature} C", 8)]
    if card.margin is None:
        slowdown = f"{card.slowdown} C" if card.slowdown else "N/A"
        rows += [line("GPU T.Limit Temp", "N/A", 8), line("GPU Slowdown Temp", slowdown, 8)]
        rows += [line("GPU Max Operating Temp", f"{card.slowdown - 2} C" if card.slowdown else "N/A", 8)]
    else:
        rows += [line("GPU T.Limit Temp", f"{card.margin} C", 8), line("GPU Slowdown T.Limit Temp", "-2 C", 8)]
        rows += [line("GPU Max Operating T.Limit Temp", "0 C", 8)]
    rows += [line("Memory Current Temp", f"{card.hbm} C" if card.hbm else "N/A", 8)]
    return [*rows, line("Memory Max Operating Temp", "95 C" if card.hbm and card.margin is None else "N/A", 8)]


def _processes(card: Card) -> list[str]:
    if not card.processes:
        return [line("Processes", "None", 4)]
    rows = ["    Processes"]
    for pid, name, memory in card.processes:
        rows += [
            line("GPU instance ID", "N/A", 8),
            line("Compute instance ID", "N/A", 8),
            line("Process ID", str(pid), 8),
        ]
        rows += [line("Type", "C", 12), line("Name", name, 12), line("Used GPU Memory", f"{memory} MiB", 12)]
    return rows


def topology(
    cards: Sequence[Card], ways: Sequence[Sequence[str]], nics: Sequence[str] = (), cpus: Sequence[str] = ()
) -> str:
    """`nvidia-smi topo -m`; `ways` has a row for each GPU: cells to the GPUs, then to the NICs."""
    names = [f"GPU{number}" for number in range(len(cards))] + [f"NIC{number}" for number in range(len(nics))]
    head = "\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"
    rows = [head]
    for number, card in enumerate(cards):
        cells = [" X " if other == number else way for other, way in enumerate(ways[number])]
        rows.append("\t".join([f"GPU{number}", *cells, cpus[number] if cpus else "0-15", str(card.node), "", "N/A"]))
    for number in range(len(nics)):
        cells = [ways[gpu][len(cards) + number] for gpu in range(len(cards))]
        cells += [" X " if other == number else "SYS" for other in range(len(nics))]
        rows.append("\t".join([f"NIC{number}", *cells]))
    rows += [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  SYS  = Connection traversing PCIe as well as the SMP interconnect",
        "",
    ]
    if nics:
        rows += ["NIC Legend:", "", *(f"  NIC{number}: {name}" for number, name in enumerate(nics)), ""]
    return "\n".join(rows) + "\n"


def p2p(count: int, state: str) -> str:
    """`nvidia-smi topo -p2p r` with one state for all pairs."""
    names = [f"GPU{number}" for number in range(count)]
    rows = [" \t" + "\t".join(names) + "\t"]
    rows += ["\t".join([f" {name}", *("X" if other == name else state for other in names), ""]) for name in names]
    legend = [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  OK   = Status Ok",
        "  CNS  = Chipset not supported",
        "  GNS  = GPU not supported",
    ]
    return "\n".join([*rows, *legend]) + "\n"


def nvlink(cards: Sequence[Card]) -> str:
    """`nvidia-smi nvlink -s`."""
    rows: list[str] = []
    for number, card in enumerate(cards):
        if card.nvlinks:
            rows.append(f"GPU {number}: {card.name} (UUID: GPU-{number:08d}-0000-0000-0000-000000000000)")
            rows += [f"\t Link {link}: {card.nvlink_speed}" for link in range(card.nvlinks)]
    return "\n".join(rows) + "\n"
