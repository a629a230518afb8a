"""Families of schedules that a nest could have, one a file: each yields specs or written plans, the likeliest first.

    processors, products            for processors: of anything, and of sums of products
    threads, few_rows               threads along ranges; along lines that products of few rows share
    tensor_cores, register_tiles    blocks of products; what both have in common is `tiling`, `joined` and `copies`
    thread_tiles                    some results of a product a thread
    scans, transpositions           running combinations; stores in another order than reads
    groups                          all of those for devices whose groups have several threads

`zyx.schedule.choose` says which of them a device is asked for.
"""
