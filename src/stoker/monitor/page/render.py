"""A Screen as one HTML document: style, script and pictures are in it, and nothing is asked of another host."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup, escape

from stoker._version import __version__
from stoker.monitor.feed import EVERY
from stoker.monitor.history import SPAN
from stoker.monitor.page.sparkline import POINTS, sparkline
from stoker.monitor.view import Screen, Words
from stoker.monitor.view.screen import GpuView, Trend


@dataclass(frozen=True)
class Page:
    """A document with the headers that it has to be sent with."""

    text: str
    headers: Mapping[str, str]


def render_page(screen: Screen, words: Words, *, refresh: float = EVERY) -> Page:
    """The page of a machine.

    Args:
        screen: What it shows.
        words: The texts, in the language of the screen.
        refresh: Seconds after which it looks for new values.
    """
    text = _template().render(
        screen=screen,
        words=words,
        version=__version__,
        refresh=f"{refresh:g}",
        style=Markup(_style()),
        script=Markup(_script()),
        footer=_footer(words),
        more_names=_more_names,
    )
    return Page(text, headers(words))


def headers(words: Words) -> dict[str, str]:
    """Only what is in the document may act: its own style and script, known by their hashes."""
    policy = (
        f"default-src 'none'; style-src {_digest(_style())}; script-src {_digest(_script())}; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Language": words.language,
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Vary": "Accept-Language",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _footer(words: Words) -> Markup:
    text = Markup(words("page.footer", metrics="{metrics}", window=words.span(SPAN / POINTS)))
    return text.format(metrics=Markup('<a href="metrics">/metrics</a>'))


def _more_names(gpus: Sequence[GpuView]) -> dict[str, str]:
    """Name and label of each further value that any of the GPUs has, in order."""
    return {reading.name: reading.label for gpu in gpus for reading in gpu.more}


def _coded(text: str) -> Markup:
    """A sentence whose commands stand between back quotes, as code."""
    pieces = [escape(piece) for piece in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


def _drawn(trend: Trend) -> Markup:
    """The sparkline of a trend; `sparkline` escapes what is in it."""
    return Markup(sparkline(trend.values, low=trend.low, high=trend.high, colour=trend.colour, title=trend.title))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("stoker.monitor.page", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["drawn"] = _drawn
    environment.filters["coded"] = _coded
    return environment.get_template("page.html.j2")


@cache
def _style() -> str:
    """The style of reports, so that all of stoker looks alike, and what only this page has."""
    return _read("stoker.report", "page.css") + _read("stoker.monitor.page", "monitor.css")


@cache
def _script() -> str:
    return _read("stoker.monitor.page", "refresh.js")


def _read(package: str, name: str) -> str:
    text, _, _ = jinja2.PackageLoader(package, "templates").get_source(jinja2.Environment(), name)
    return text


def _digest(text: str) -> str:
    """A source of a content security policy, level 2."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
