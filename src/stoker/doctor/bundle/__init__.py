"""Bundles: a machine in one masked file, which can be diagnosed anywhere. Standard library only."""
