"""Starts the processes of a run. Knows nothing of training but its spec, and of torch its launcher only."""
