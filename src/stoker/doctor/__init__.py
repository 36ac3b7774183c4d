"""What is wrong with a machine, a run or a log, and what mends it."""
