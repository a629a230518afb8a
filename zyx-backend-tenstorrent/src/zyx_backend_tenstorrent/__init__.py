"""The Tenstorrent backend of zyx: programs of tiles in TT-Lang. `plugin` is where core meets it."""
