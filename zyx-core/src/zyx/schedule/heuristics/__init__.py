"""Schedules by rule: a file for each kind of nest, and `choose`, which asks them one after the other."""
