"""One file per verb: it parses, calls and prints, and holds no logic. Nothing imports this room."""
