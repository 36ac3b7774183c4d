"""The HTTP side of the monitor: a small server, who may ask, and what can be asked for."""
