"""Kernels to source text. The languages of the C family share one emitter.

dialect     what differs between the languages, as data
literals    constants
scalar      operations on one element, as expressions
c_family    the emitter
divisors    what indices are known to be multiples of
seams       values that a driver must not see through
words       params of small types where memory has words of 32 bits
"""
