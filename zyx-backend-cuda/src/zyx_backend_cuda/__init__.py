"""The CUDA backend of zyx: NVIDIA GPUs. `plugin` is where core meets it."""
