"""A simulated machine: what page, `top` and `/metrics` show where there is no GPU. Every sample says so."""

from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import Scenario, read_scenario

__all__ = ["Player", "Scenario", "read_scenario"]
