"""Families of schedules that a nest could have, one a file: each yields specs or written plans, the likeliest first.

    tensor_cores, register_tiles    blocks of products; what both have in common is `tiling`, `joined` and `copies`
    thread_tiles, skinny_products   some results of a product a thread; lines that few rows share
    groups                          all of those for devices whose groups have several threads

The others have the names of what they are for. `zyx.schedule.choose` says which of them a device is asked for.
"""
