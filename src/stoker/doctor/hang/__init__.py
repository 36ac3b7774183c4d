"""Asks a live job why it does not go on: `stoker doctor hang`. Reads only, and stops nothing for longer than a look."""

from stoker.doctor.hang.ask import HangAnswer, ask

__all__ = ["HangAnswer", "ask"]
