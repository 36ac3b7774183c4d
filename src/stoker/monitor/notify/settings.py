"""Who is told: the settings file of `stoker monitor render`, `up` and `relay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from stoker.errors import Mistake, UserError

Language = Literal["en", "zh"]
ROBOTS = ("dingtalk", "wecom", "feishu")
RELAY_PORT = 9837


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Email(_Part):
    """E-mail through a mail server."""

    to: Annotated[list[str], BeforeValidator(_as_list)] = Field(min_length=1)
    sender: str
    server: str = Field(pattern=r"^[^\s:]+:\d+$")
    """Name and port, such as `smtp.example.com:587`."""
    username: str = ""
    password_file: Path | None = None
    tls: bool = True


class Robot(_Part):
    """A robot of a chat group. Its address is a secret: who knows it can post to the group."""

    url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    url_file: Path | None = None
    secret_file: Path | None = None
    """Where the group's signing secret stands, if signing is on. WeCom has none."""

    @model_validator(mode="after")
    def _has_address(self) -> Robot:
        if bool(self.url) == bool(self.url_file):
            raise ValueError("give either url or url_file")
        return self

    def address(self) -> str:
        """The robot's address."""
        return self.url if self.url_file is None else read_secret(self.url_file)

    def secret(self) -> str:
        """The signing secret; empty if signing is off."""
        return "" if self.secret_file is None else read_secret(self.secret_file)


class Notify(_Part):
    """Who is told, and in which language.

    Attributes:
        webhooks: Addresses that take Alertmanager's own JSON.
        info: Whether alerts of severity `info` are sent, too.
        runbooks: Address under which the runbook pages are served; empty if they are not.
        relay: Where Alertmanager reaches the relay.
    """

    language: Language = "en"
    email: Email | None = None
    webhooks: list[Annotated[str, Field(pattern=r"^https?://\S+$")]] = []
    dingtalk: Robot | None = None
    wecom: Robot | None = None
    feishu: Robot | None = None
    info: bool = False
    runbooks: str = ""
    relay: str = Field(default=f"http://127.0.0.1:{RELAY_PORT}", pattern=r"^https?://[^\s/]+$")

    def robots(self) -> dict[str, Robot]:
        """The robots that are set, by kind."""
        return {kind: robot for kind in ROBOTS if (robot := getattr(self, kind)) is not None}


def read_notify(path: Path) -> Notify:
    """Read a settings file.

    Raises:
        UserError: It cannot be read, is no YAML, or says something that is not understood; all mistakes at once.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the notify file cannot be read: {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"the notify file is no YAML: {path}: {error}") from error
    try:
        return Notify.model_validate(content or {})
    except ValidationError as error:
        raise UserError(*(_mistake(path, entry) for entry in error.errors())) from error


def read_secret(path: Path) -> str:
    """The first line of a file that holds a secret.

    Raises:
        UserError: The file cannot be read or is empty.
    """
    try:
        found = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UserError(f"the secret cannot be read: {path}: {error.strerror}") from error
    if not found:
        raise UserError(f"the file is empty and should hold a secret: {path}")
    return found.splitlines()[0]


def _mistake(path: Path, entry: Any) -> Mistake:
    key = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        known = ", ".join(sorted(Notify.model_fields)) if len(entry["loc"]) == 1 else "see the how-to page"
        return Mistake(f"unknown key {key!r}: {known}", str(path))
    return Mistake(f"{key or 'the file'}: {entry['msg']}", str(path))
