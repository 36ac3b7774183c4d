"""Asks the driver about the GPUs, in a process of its own: a driver call that never comes back blocks nothing else."""
