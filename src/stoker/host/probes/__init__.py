"""One probe per file: the section of the snapshot it fills, pure parsers, and a thin reader through a source."""
