"""`python -m stoker.monitor WORDS`: the process that `stoker monitor serve` turns into.

It holds neither the command line's libraries nor anything else that only the start needs: a fifth less memory for a
process that stays for months. `serve.as_words` makes the words.
"""

from __future__ import annotations

import sys

from stoker.errors import UserError
from stoker.monitor.serve import from_words, serve

if __name__ == "__main__":
    try:
        serve(from_words(sys.argv[1:]))
    except UserError as error:
        sys.stderr.writelines(f"error: {mistake}\n" for mistake in error.mistakes)
        sys.exit(error.exit_code)
