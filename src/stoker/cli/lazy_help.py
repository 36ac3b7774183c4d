"""Help whose long part is made only when it is asked for: making it loads more than a start may cost."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class LazyHelpCommand(TyperCommand):
    """A command with `more_help` below its options."""

    @staticmethod
    def more_help() -> str:
        """The rest of the help."""
        raise NotImplementedError

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, then the rest as it stands."""
        super().format_help(ctx, formatter)
        formatter.write("\n" + self.more_help() + "\n")
