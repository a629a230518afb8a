"""The HIP backend of zyx: AMD GPUs. `plugin` is where core meets it."""
