"""Kernels written by hand, where no schedule of a nest gets there: sorts, Fourier transforms, attention.

Each is a node of the graph (`zyx.kernels.custom`); `zyx.fusion.prepare` puts it there.
"""
