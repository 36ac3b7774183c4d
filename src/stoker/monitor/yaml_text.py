"""YAML as a person would write it."""

from __future__ import annotations

from typing import Any


def as_yaml(content: Any) -> str:
    """YAML in the order given, with texts of several lines as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes lists indented under their key, as Prometheus's own documentation does."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
