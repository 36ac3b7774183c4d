"""A simulated machine: what page, `top` and `/metrics` show where there is no GPU. Every screen says so."""
