"""Estimate how long a scheduled nest takes on a device, from what both are: nothing is compiled or run.

    estimate(nest, info)    bytes by level of memory, instructions by kind, groups, waves, seconds, what bounds them

    layout       the loops, where values live, the accesses
    footprint    the lines that an access touches while some ranges run
    traffic      the bytes that come to each cache, from what is touched while loops run
    work         the instructions
    model        the seconds

The rates are those of the device's record, or of its calibration (`zyx.backend.rates`). What one instruction costs
beside another is in `zyx.estimate.model.CostWeights`, fitted by ``benchmarks/fit_schedules.py`` to nests drawn at
random.
"""

from zyx.estimate.model import CostWeights, Estimate, estimate, estimate_below

__all__ = ["CostWeights", "Estimate", "estimate", "estimate_below"]
