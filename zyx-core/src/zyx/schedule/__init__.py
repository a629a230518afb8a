"""How a loop nest is run on a device.

    moves               the language of schedules: nests into equal nests
    facts               what there is to know of a nest
    spec, apply         a schedule as data; from that to moves
    seeds               families of schedules that a nest could have, one a file
    search              of specs and their neighbours, that which is expected to take least
    choose              what is searched for a nest on a device
    fallback            simpler ones, for where a schedule fails or is refused

Each takes what those above it return.
"""
