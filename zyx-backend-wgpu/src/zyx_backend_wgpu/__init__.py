"""The WebGPU backend of zyx: GPUs with a Vulkan, Metal or Direct3D 12 driver. `plugin` is where core meets it."""
