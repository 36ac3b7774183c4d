"""Samples: their order, how they are cut into micro-batches, and how they are read."""
