"""The pools and devices that need nothing but this package: host memory, files, the dummy, and the interpreter."""
