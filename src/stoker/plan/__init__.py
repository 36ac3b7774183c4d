"""Answers before anything is bought or started: versions, memory, speed, power."""
