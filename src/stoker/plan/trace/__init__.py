"""Traces training steps on fake GPUs, in a process of its own."""
