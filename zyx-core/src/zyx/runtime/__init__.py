"""The one place with state: devices, memory, buffers, plans, caches and the trace of what runs."""
