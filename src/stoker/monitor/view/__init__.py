"""What a screen shows of a machine, written out in the reader's language; the page and `top` only lay it out.

`screen_of` is the one entry: a moment of a `Watch` and the texts in, a `Screen` out.
"""

from stoker.monitor.view.build import screen_of
from stoker.monitor.view.screen import Screen
from stoker.monitor.view.words import Language, Words, chosen_language, words_of

__all__ = ["Language", "Screen", "Words", "chosen_language", "screen_of", "words_of"]
