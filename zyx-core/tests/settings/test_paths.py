"""Where the configuration file and the cache lie, and how many threads there are."""

import os
import sys
from pathlib import Path

import pytest

from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory, config_file, quota, thread_count
from zyx.settings.record import Cache, Settings

linux = pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="folders are the system's there")


@linux
def test_the_configuration_file_is_where_xdg_says() -> None:
    assert config_file({"XDG_CONFIG_HOME": "/etc/ada", "HOME": "/home/ada"}) == Path("/etc/ada/zyx/config.json")


@linux
@pytest.mark.parametrize("value", ["relative/folder", "", "~/x"])
def test_a_value_of_xdg_that_is_not_absolute_is_ignored(value: str) -> None:
    assert config_file({"XDG_CONFIG_HOME": value, "HOME": "/home/ada"}) == Path("/home/ada/.config/zyx/config.json")


@linux
def test_the_cache_is_where_xdg_says_unless_it_is_configured() -> None:
    home = {"HOME": "/home/ada"}
    assert cache_directory(Settings(), home) == Path("/home/ada/.cache/zyx")
    assert cache_directory(Settings(), home | {"XDG_CACHE_HOME": "/var/c"}) == Path("/var/c/zyx")
    assert cache_directory(Settings(cache=Cache(directory="/x")), home) == Path("/x")


def test_a_relative_cache_folder_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache_directory(Settings(cache=Cache(directory="here"))) == tmp_path / "here"


def test_without_a_cache_there_is_no_folder() -> None:
    assert cache_directory(Settings(cache=Cache(enabled=False))) is None


@linux
def test_the_file_is_found_through_the_environment(tmp_path: Path) -> None:
    folder = tmp_path / "zyx"
    folder.mkdir()
    (folder / "config.json").write_text('{"threads": 9}', encoding="utf-8")
    assert load_settings(environ={"XDG_CONFIG_HOME": str(tmp_path)}).threads == 9


def test_threads_are_those_configured_or_one_for_each_processor_allowed() -> None:
    assert thread_count(Settings(threads=7)) == 7
    if hasattr(os, "sched_getaffinity"):
        assert thread_count(Settings()) <= len(os.sched_getaffinity(0))
    assert thread_count(Settings()) >= 1


@pytest.mark.parametrize(
    ("own", "files", "wanted"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n", "cpu.max": "300000 100000"}, 2.0),
        ("0::/a\n", {"cpu.max": "garbage", "a/cpu.max": ""}, None),
        ("0::/gone/here\n", {}, None),
        (
            "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("4:cpu:/a\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("4:cpu,cpuacct:/a\n", {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
    ],
)
def test_the_quota_of_control_groups_is_the_least_of_those_around(tmp_path, own, files, wanted) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert quota(tmp_path, tmp_path / "own") == wanted


def test_without_control_groups_there_is_no_quota(tmp_path) -> None:
    assert quota(tmp_path, tmp_path / "none") is None


@pytest.mark.parametrize(("given", "wanted"), [(0.5, 1), (1.9, 1), (1e6, None), (None, None)])
def test_threads_are_no_more_than_the_quota(monkeypatch, given, wanted) -> None:
    monkeypatch.setattr(sys.modules["zyx.settings.paths"], "quota", lambda: given)
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert thread_count(Settings()) == (there if wanted is None else wanted)
