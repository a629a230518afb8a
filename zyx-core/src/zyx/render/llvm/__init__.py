"""Operations of kernels as LLVM IR text, with explicit vectors, for any processor that LLVM knows. LLVM is not needed.

operations  the table of all of this: which function writes which operation
writer      names, lines, slots, blocks: what the functions share
values      arithmetic, conversions, lanes
memory      loads and stores
atomics     atomic updates
control     loops and conditions
templates   the templates of operations, kept
math        arithmetic as templates
casts       conversions as templates
types       how types and constants are spelled
slots       elements of register arrays that are values of their own
machine     what all of this must know of a processor

What differs is left to a backend: `Define`, `Variable`, `Index` and `Barrier`, and the functions around the text.
"""
