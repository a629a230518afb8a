"""Kernels to source text. The languages of the C family share one emitter, and the processors that LLVM knows another.

dialect        what differs between the languages, as data
literals       constants
long_loops     loops in fewer, larger steps, for drivers that end long ones
scalar         operations on one element, as expressions
halves         float16 and bfloat16 for languages without them
c_family       the emitter
c_memory       its part for arrays
c_text         its part for statements, names and types
divisors       what indices are known to be multiples of
fences         barriers that pass something on in global memory
seams          values that a driver must not see through
vector_arrays  arrays that are made of vectors
wide_values    values of 8 and 16 bits in languages without them
half_bits      float16 and bfloat16 in these, by integer arithmetic
words          params of small types where memory has words of 32 bits
llvm           LLVM IR
"""
