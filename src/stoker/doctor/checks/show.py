"""An examination as text for a terminal, or as one page that opens offline. The text needs nothing but Python."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.doctor.checks.run import AREAS, ORDER, Examination, Verdict, worst_of
from stoker.doctor.render import MAX_LINE, WIDTH, printable
from stoker.finding import Finding, State
from stoker.host.snapshot import Snapshot

_COLOURS: Mapping[State, str] = {"fail": "31;1", "warn": "33;1", "info": "36", "unknown": "35", "ok": "32"}
_LEFT = " " * 9
_KEPT = "\ue000"
"""Stands for a space at which no line may be broken: a character for private use, so that no text holds it."""
_Painter = Callable[[State, str], str]


@dataclass(frozen=True)
class Area:
    """The verdicts of one area: what was found, worst first, and how many checks said what."""

    name: str
    found: tuple[Verdict, ...]
    counts: Mapping[State, int]

    @property
    def worst(self) -> State:
        """The worst state, `unknown` aside where anything was judged."""
        return worst_of((state for state, count in self.counts.items() if count and state != "unknown"), "unknown")


@dataclass(frozen=True)
class Unseen:
    """Checks that could not be judged for one reason."""

    reason: str
    checks: tuple[str, ...]


def areas_of(examination: Examination) -> tuple[Area, ...]:
    """The areas, the worst first."""
    areas: list[Area] = []
    for name in AREAS:
        mine = [one for one in examination.verdicts if one.finding.area == name]
        if mine:
            found = tuple(one for one in mine if one.finding.state in ("fail", "warn", "info"))
            areas.append(Area(name, found, Counter(one.finding.state for one in mine)))
    return tuple(sorted(areas, key=lambda area: ORDER.index(area.worst)))


def unseen_of(examination: Examination) -> tuple[Unseen, ...]:
    """What was not seen, by reason, the commonest first."""
    by_reason: dict[str, list[str]] = {}
    for one in examination.of("unknown"):
        by_reason.setdefault(one.finding.title, []).append(one.check)
    found = [Unseen(reason, tuple(dict.fromkeys(checks))) for reason, checks in by_reason.items()]
    return tuple(sorted(found, key=lambda one: -len(one.checks)))


def headline(snapshot: Snapshot) -> list[str]:
    """What the machine is, in a few words each."""
    models = Counter(gpu.name or "GPU" for gpu in snapshot.gpus.devices)
    gpus = " + ".join(f"{count} x {name}" for name, count in models.items())
    cards = snapshot.pci.gpus()
    if not gpus:
        gpus = f"{len(cards)} NVIDIA cards that do not answer" if cards else "no NVIDIA GPU"
    driver = f"driver {snapshot.driver.loaded}" if snapshot.driver.loaded else "no driver loaded"
    flavour = f" ({snapshot.driver.flavour})" if snapshot.driver.flavour else ""
    kind = {"none": "", "": ""}.get(snapshot.system.virtualization, f"{snapshot.system.virtualization} guest")
    inside = f"in a container ({snapshot.container.kind})" if snapshot.container.kind else ""
    words = [
        snapshot.system.os_name,
        f"kernel {snapshot.system.kernel}" if snapshot.system.kernel else "",
        kind,
        inside,
    ]
    return [*filter(None, words), driver + flavour if cards or snapshot.driver.loaded else "", gpus]


def summary(examination: Examination) -> str:
    """How many checks said what: `115 checks: 1 fail, 2 warn, 63 unknown, 49 ok`."""
    states: dict[str, State] = {}
    for one in examination.verdicts:
        previous = states.get(one.check)
        if previous is None or ORDER.index(one.finding.state) < ORDER.index(previous):
            states[one.check] = one.finding.state
    counts = Counter(states.values())
    return f"{len(states)} checks: " + ", ".join(f"{counts[state]} {state}" for state in ORDER if counts[state])


def render_text(examination: Examination, *, colour: bool = False) -> str:
    """A table of the areas, worst first; what was found in each; and what was not seen."""
    paint = _paint if colour else _plain
    areas = areas_of(examination)
    lines = [*_wrapped(" · ".join(filter(None, headline(examination.snapshot))), ""), summary(examination), ""]
    lines.append("  " + "area".ljust(12) + "".join(state.rjust(9) for state in ORDER))
    for area in areas:
        counts = "".join(str(area.counts.get(state) or "·").rjust(9) for state in ORDER)
        lines.append("  " + paint(area.worst, area.name.ljust(12)) + counts)
    for area in areas:
        if area.found:
            lines += ["", area.name]
        for one in area.found:
            lines += _finding(one, paint)
    if unseen := unseen_of(examination):
        lines += ["", "not seen"]
        for one in unseen:
            lines += _wrapped(f"{one.reason}: {', '.join(one.checks)}", "  ", "    ")
    return "\n".join([*lines, *_verdict(examination)])


def _verdict(examination: Examination) -> list[str]:
    if examination.of("fail", "warn"):
        return []
    if not examination.snapshot.gpus.devices:
        gone = "There is no GPU here that could be judged" if not examination.snapshot.pci.gpus() else "No GPU answers"
        return ["", f"{gone}; nothing wrong was found in what was seen."]
    return ["", "Nothing wrong was found in what was seen."]


def _finding(one: Verdict, paint: _Painter) -> Iterator[str]:
    finding = one.finding
    yield from _marked(paint(finding.state, f"{finding.state:<4}"), finding.title)
    yield f"{_LEFT}[{one.check}: {finding.cause}]"
    if finding.follows_from:
        yield f"{_LEFT}follows from {finding.follows_from}"
        return
    for item in finding.evidence:
        text = printable(item.text)
        place = f"{item.source}:{item.line}" if item.line else item.source
        shown = f"{place}: {text[:MAX_LINE]}{' …' if len(text) > MAX_LINE else ''}"
        yield from _wrapped(shown, f"{_LEFT}| ", f"{_LEFT}|   ")
    if finding.state == "info":
        return
    yield from _wrapped(finding.meaning, _LEFT)
    for number, step in enumerate(finding.fix, 1):
        yield from _wrapped(_whole_commands(step), f"{_LEFT}{number}. ", _LEFT + "   ")
    if finding.confirm:
        yield from _wrapped(_whole_commands(f"Mended if: {finding.confirm}"), _LEFT)


def _whole_commands(text: str) -> str:
    """With commands that no line break parts, so that they can be copied."""
    return re.sub(r"`[^`]*`", lambda match: match[0].replace(" ", _KEPT), text)


def _plain(state: State, text: str) -> str:
    del state
    return text


def _paint(state: State, text: str) -> str:
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def _marked(mark: str, text: str) -> list[str]:
    first, *rest = textwrap.wrap(printable(text), WIDTH - len(_LEFT)) or [""]
    return [f"  {mark}   {first}", *(_LEFT + line for line in rest)]


def _wrapped(text: str, first: str, others: str | None = None) -> list[str]:
    lines = textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if others is None else others,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(_KEPT, " ") for line in lines]


def render_html(examination: Examination) -> str:
    """One page with everything, also what is well."""
    import jinja2

    from stoker._version import __version__

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("stoker.doctor.checks", "templates"),
                jinja2.PackageLoader("stoker.report", "templates"),
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("machine.html.j2").render(
        version=__version__,
        title=f"{examination.snapshot.system.hostname or 'machine'} examined",
        words=[word for word in headline(examination.snapshot) if word],
        summary=summary(examination),
        taken=examination.snapshot.taken,
        areas=areas_of(examination),
        unseen=unseen_of(examination),
        fine=_fine(examination.verdicts),
        places=places,
    )


def places(finding: Finding) -> Sequence[str]:
    """The evidence as lines with their places."""
    return [f"{item.source}: {printable(item.text)}" for item in finding.evidence]


def _fine(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if one.finding.state == "ok"]
