"""The business card of the CUDA backend."""

from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import BackendState
from zyx.settings.record import Settings


def test_it_is_found_by_its_entry_point_and_says_honestly_that_it_has_no_driver():
    own = [entry for entry in installed()[0] if entry.name == "cuda"]
    opened = open_backends(PluginManager(Settings(), own), ["cuda"])
    report = next(report for report in opened.reports if report.name == "cuda")
    assert report.package == "zyx-backend-cuda"
    assert report.state is BackendState.NO_DRIVER
    assert "no CUDA driver yet" in report.reason
