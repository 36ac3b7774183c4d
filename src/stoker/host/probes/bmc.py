"""What the machine's own controller (BMC) says: fans, power supplies, and its event log."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.host.probing import Notes
from stoker.host.source import Source, Unreadable


@dataclass(frozen=True)
class Sensor:
    """A sensor of the BMC: `status` is `ok`, `cr`, `nc`, `nr` or `ns` (not present)."""

    name: str
    status: str
    reading: str


@dataclass(frozen=True)
class Bmc:
    """Sensors for fans and power supplies, and the newest lines of the event log."""

    sensors: tuple[Sensor, ...] = ()
    events: tuple[str, ...] = ()


def read(source: Source, notes: Notes) -> Bmc:
    """Read the section."""
    if isinstance(probe := source.run(["ipmitool", "sdr", "type", "Fan"], name="ipmitool_fan", timeout=3), Unreadable):
        notes.note("sensors", probe.reason)
        notes.note("events", probe.reason)
        return Bmc()
    fans = notes.output("sensors", probe) or ""
    power = (
        notes.output("sensors", source.run(["ipmitool", "sdr", "type", "Power Supply"], name="ipmitool_power")) or ""
    )
    events = notes.output("events", source.run(["ipmitool", "sel", "elist", "last", "50"], name="ipmitool_sel")) or ""
    return Bmc(
        parse_sensors(fans) + parse_sensors(power), tuple(line.strip() for line in events.splitlines() if "|" in line)
    )


def parse_sensors(text: str) -> tuple[Sensor, ...]:
    """Lines of `ipmitool sdr type ...`: `FAN1 | 41h | ok | 29.1 | 5600 RPM`."""
    found: list[Sensor] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5:
            found.append(Sensor(cells[0], cells[2], cells[4]))
    return tuple(found)
