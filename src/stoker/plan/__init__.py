"""Plans: will a training run fit, how fast will it be, and on what."""
