"""The CPU backend of zyx. `zyx_backend_c.plugin` is where to start reading, `zyx_backend_c.start` what happens next."""
