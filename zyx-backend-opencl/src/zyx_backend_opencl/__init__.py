"""The OpenCL backend of zyx: GPUs and CPUs with an OpenCL driver. `plugin` is where core meets it."""
