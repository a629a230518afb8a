"""How a loop nest is run on a device.

    moves               the language of schedules: nests into equal nests
    facts               what there is to know of a nest
    spec, apply         a schedule as data; from that to moves
    seeds, products     a handful of specs for a processor: of anything, and of sums of products
    threads             the same for devices whose groups have several threads
    choose              of these, that which is expected to take least
    heuristics          rules for devices whose groups have several threads
    fallback            simpler ones, for where a schedule fails or is refused

Each takes what those above it return.
"""
