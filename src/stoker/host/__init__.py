"""Reads this machine. One probe per file; what cannot be read is unknown, never made up."""
