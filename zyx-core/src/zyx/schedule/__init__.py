"""How a loop nest is run on a device.

moves           the language of schedules: nests into equal nests
heuristics      a good schedule at once, without measuring
fallback        simpler ones, for where a schedule fails or is refused
"""
