"""The conformance tests; run them with ``pytest --pyargs zyx.testing --zyx-device NAME``."""
