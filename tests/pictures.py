"""The pictures of the documentation, which tests take.

`STOKER_WRITE_IMAGES=1 pytest tests/monitor/page/test_browser.py tests/monitor/top` writes them anew. Pillow, of the
extra `train`, keeps them small then.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WRITE = bool(os.environ.get("STOKER_WRITE_IMAGES"))
COLOURS = 128


def keep_png(name: str, picture: bytes) -> None:
    """Put a picture into the documentation if that is asked for; the one that is there has to be of its size."""
    from PIL import Image

    taken = Image.open(io.BytesIO(picture))
    if WRITE:
        IMAGES.mkdir(exist_ok=True)
        small = taken.convert("RGB").quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
        small.save(IMAGES / name, optimize=True)
    assert len(taken.convert("L").getcolors(256) or ()) > 20, "an empty page"
    assert Image.open(IMAGES / name).size == taken.size, f"docs/images/{name} is out of date: see tests/pictures.py"


def keep_text(name: str, text: str) -> None:
    """The same for a picture that is a text, whose content may differ."""
    if WRITE:
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / name).write_text(text, encoding="utf-8")
    assert (IMAGES / name).is_file()
