"""Families of schedules that a nest could have, one a file: each yields specs, the likeliest first."""
