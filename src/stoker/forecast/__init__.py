"""Plans runs: what the planner says of a run file, before it starts.

It is the one room that knows both the run file and the planner, so that neither of them knows the other.
`workload` follows the engine step by step in the process that traces; `run` asks the planner; `choose` turns
the best layout of a search into a run file.
"""
