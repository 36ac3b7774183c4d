"""What the GPUs and the runs of a machine do: sampled, exported, shown."""
