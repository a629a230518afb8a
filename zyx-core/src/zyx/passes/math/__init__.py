"""Transcendental functions as sequences of simple operations, so that they vectorise on any device.

A function of this folder appends operations to a `Builder` and returns its result; operands are float32 or float64, of
any number of lanes. There are no tables, no casts of floats to integers, and no branches but for sines of large angles.

Errors are stated in units of the last place (ulps), a second figure for devices where `Mad` rounds twice. They hold for
correctly rounded sums, products and quotients; where a device divides less precisely, functions that divide lose as
much. What a device flushes to 0 is lost as well. Sums must not be regrouped: the formulas rely on what rounding takes
away.
"""
