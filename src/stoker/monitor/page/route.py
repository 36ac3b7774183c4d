"""Answers for the page: the reader's language from the request, the same document for all who ask of one sample."""

from __future__ import annotations

import threading
from urllib.parse import parse_qs

from stoker.monitor.feed import EVERY
from stoker.monitor.view.words import Language, chosen_language, words_of
from stoker.monitor.watch import Moment, Watch
from stoker.monitor.web.routes import Request, Response


class PageRoute:
    """Answers `/`.

    jinja2 is loaded with the first page: an exporter that only Prometheus reads stays small.

    Args:
        watch: What is known of the machine.
        refresh: Seconds after which an open page looks for new values.
    """

    def __init__(self, watch: Watch, *, refresh: float = EVERY) -> None:
        self._watch = watch
        self._refresh = refresh
        self._made: dict[Language, tuple[Moment, Response]] = {}
        self._making = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """The page in the language that is asked for."""
        asked = parse_qs(request.query).get("lang", [""])[0]
        language = chosen_language(asked, request.headers.get("accept-language", ""))
        with self._making:  # many readers at once make one page, not many
            moment = self._watch.moment
            if moment is None:
                return Response(b"stoker monitor has only just begun: try again in a second\n", status=503)
            made = self._made.get(language)
            if made is None or made[0] is not moment:
                made = self._made[language] = moment, self._page(moment, language)
            return made[1]

    def _page(self, moment: Moment, language: Language) -> Response:
        from stoker.monitor.page.render import render_page
        from stoker.monitor.view import screen_of

        words = words_of(language)
        with self._watch.lock:  # the history must not grow while it is read
            screen = screen_of(moment, words)
        page = render_page(screen, words, refresh=self._refresh)
        return Response(page.text.encode("utf-8", "replace"), "text/html; charset=utf-8", headers=page.headers)
