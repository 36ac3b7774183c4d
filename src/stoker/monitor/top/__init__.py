"""`stoker monitor top`: the screen of a machine in a terminal. Needs textual, of the extra `monitor`."""
