"""Reading files that a killed run may have left missing, empty or cut off: what can be read is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from stoker.report.figures import clean

Note = Callable[[str], None]
"""Takes a sentence about something that could not be read."""


def read_rows(path: Path, note: Note) -> Iterator[Mapping[str, object]]:
    """The objects of a JSON lines file, one at a time; lines that are none are counted and noted.

    A missing file has no rows. The last line of a run that was killed is often half written.
    """
    broken: list[int] = []
    count = 0
    try:
        with path.open("rb") as lines:
            for line in lines:
                count += 1
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    if line.strip():
                        broken.append(count)
                    continue
                if isinstance(row, dict):
                    yield cast(Mapping[str, object], row)
                else:
                    broken.append(count)
    except FileNotFoundError:
        return
    except OSError as error:
        note(f"{path.name} could not be read: {error.strerror or error}")
    if broken == [count]:
        note(f"the last line of {path.name} (line {count}) is cut off and was left out")
    elif broken:
        left_out = f"{len(broken)} of {count} lines of {path.name}"
        note(f"{left_out} are no JSON object and were left out, the first is line {broken[0]}")


def read_mapping(path: Path, note: Note, *, parse: Callable[[str], object] = json.loads) -> dict[str, object]:
    """The one mapping that a file holds; empty where it is missing or cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    except OSError as error:
        note(f"{path.name} could not be read: {error.strerror or error}")
        return {}
    if not text.strip():
        note(f"{path.name} is empty")
        return {}
    try:
        value = parse(text)
    except (ValueError, RecursionError):
        note(f"{path.name} is damaged or cut off and was left out")
        return {}
    if not isinstance(value, dict):
        note(f"{path.name} holds no mapping")
        return {}
    return {str(key): inner for key, inner in cast(dict[object, object], value).items()}


def as_float(value: object) -> float | None:
    """A JSON number as float, NaN and infinities included; None for anything else."""
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # an integer of more than 308 digits is no measurement
            return None
    return None


def as_amount(value: object) -> float | None:
    """A finite number that is not negative, such as seconds or samples; None for anything else."""
    number = as_float(value)
    return number if number is not None and math.isfinite(number) and number >= 0 else None


def as_int(value: object) -> int | None:
    """A whole number that a float holds exactly, as steps and ranks do; None for anything else."""
    number = as_float(value)
    return int(number) if number is not None and number.is_integer() and abs(number) <= 2**53 else None


def as_text(value: object) -> str:
    """Text without control characters; empty for null, written out for anything else."""
    return "" if value is None else clean(value if isinstance(value, str) else str(value))


def as_mapping(value: object) -> dict[str, object]:
    """A mapping with text keys; empty for anything else."""
    return {str(k): v for k, v in cast(dict[object, object], value).items()} if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """A list; empty for anything else."""
    return cast(list[object], value) if isinstance(value, list) else []
