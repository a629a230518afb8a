"""The Vulkan backend of zyx: GPUs and CPUs with a Vulkan driver, by SPIR-V. `plugin` is where core meets it."""
