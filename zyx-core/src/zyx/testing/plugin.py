"""The pytest plugin by its earlier name, which installations that were made before still ask for: see `zyx_pytest`."""

from zyx_pytest import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_report_header,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_addoption", "pytest_collection_modifyitems", "pytest_configure", "pytest_generate_tests",
    "pytest_report_header", "pytest_terminal_summary",
]  # fmt: skip
