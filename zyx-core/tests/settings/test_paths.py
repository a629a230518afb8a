"""Where the configuration file and the cache lie, and how many threads there are."""

import os
import sys
from pathlib import Path

import pytest

from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory, config_file, thread_count
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
        assert thread_count(Settings()) == len(os.sched_getaffinity(0))
    assert thread_count(Settings()) >= 1
