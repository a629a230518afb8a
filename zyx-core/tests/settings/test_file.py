"""The configuration file."""

import json
import os
from pathlib import Path

import pytest

from zyx.errors import SettingsError
from zyx.settings.debug import Debug
from zyx.settings.load import load_settings
from zyx.settings.record import Settings


def written(tmp_path: Path, content: object) -> Path:
    file = tmp_path / "config.json"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def load(file: Path) -> Settings:
    return load_settings(environ={}, file=file)


def test_a_missing_file_gives_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path / "none" / "config.json")
    assert settings.autotune == Settings().autotune
    assert settings.devices.default is None
    assert settings.sources.origins == {}


def test_missing_keys_have_their_defaults_key_by_key(tmp_path: Path) -> None:
    settings = load(written(tmp_path, {"autotune": {"enabled": True}}))
    assert settings.autotune.enabled is True
    assert settings.autotune.n_launches == Settings().autotune.n_launches
    assert settings.cache == Settings().cache


def test_every_section_is_read(tmp_path: Path) -> None:
    content = {
        "devices": {"default": "c:0", "order": ["cuda", "c"], "backends": ["c", "cuda"]},
        "debug": "source,ir",
        "autotune": {"enabled": True, "library_kernels": "prefer", "n_launches": 1},
        "cache": {"enabled": False, "directory": "/x", "max_bytes": 0},
        "threads": 3,
        "backends": {"cuda": {"enabled": False, "device_ids": [0]}},
    }
    settings = load(written(tmp_path, content))
    assert settings.devices.order == ("cuda", "c")
    assert settings.debug == Debug.SOURCE | Debug.IR
    assert settings.autotune.enabled
    assert settings.autotune.n_launches == 1
    assert settings.cache.directory == "/x"
    assert settings.threads == 3
    assert settings.backends == {"cuda": {"enabled": False, "device_ids": [0]}}
    assert settings.sources.origins["threads"] == str(tmp_path / "config.json")
    assert settings.sources.origins["backends.cuda.device_ids"] == str(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("content", "key", "reason"),
    [
        ({"autotune": {"n_lanches": 3}}, "autotune.n_lanches", "did you mean 'n_launches'?"),
        ({"divices": {}}, "divices", "did you mean 'devices'?"),
        ({"sources": {}}, "sources", "there is no such key"),
        ({"threads": 0}, "threads", "0 is not accepted; it takes a whole number (at least 1) or null"),
        ({"threads": "4"}, "threads", "'4' is not accepted"),
        ({"threads": 4.5}, "threads", "4.5 is not accepted"),
        ({"threads": True}, "threads", "True is not accepted"),
        ({"autotune": {"enabled": 1}}, "autotune.enabled", "it takes true or false"),
        ({"autotune": {"n_shots": 1}}, "autotune.n_shots", "there is no such key"),
        ({"cache": {"max_bytes": -1}}, "cache.max_bytes", "it takes a whole number (at least 0)"),
        ({"autotune": {"library_kernels": "on"}}, "autotune.library_kernels", "'measure', 'off', 'prefer'"),
        ({"autotune": 3}, "autotune", "3 is not an object"),
        ({"autotune": None}, "autotune", "None is not an object"),
        ({"devices": {"order": "c"}}, "devices.order", "it takes a list of (text)"),
        ({"devices": {"order": [1]}}, "devices.order", "it takes a list of (text)"),
        ({"backends": {"c": 3}}, "backends", "it takes an object of (an object)"),
        ({"debug": 2048}, "debug", "2048 is out of range"),
        ({"debug": "sorce"}, "debug", "did you mean 'source'?"),
        ({"debug": 1.5}, "debug", "a number from 0 to 2047"),
        ({"cache": {"max_bytes": -1}}, "cache.max_bytes", "at least 0"),
    ],
)
def test_a_wrong_key_or_value_is_an_error_with_file_key_reason_and_what_is_accepted(
    tmp_path: Path, content: object, key: str, reason: str
) -> None:
    file = written(tmp_path, content)
    with pytest.raises(SettingsError) as raised:
        load(file)
    assert str(raised.value).startswith(f"{file}: key {key}: ")
    assert reason in str(raised.value)


def test_all_faults_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        load(written(tmp_path, {"threads": 0, "debug": -1, "cache": {"max_bytes": -1}}))
    assert [line.split(": ")[1] for line in str(raised.value).splitlines()] == [
        "key threads",
        "key debug",
        "key cache.max_bytes",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "line 1, column 1"),
        ('{\n  "threads" 4\n}', "line 2, column 13"),
        ("[1, 2]", "holds [1, 2]; it takes an object"),
        ("null", "holds None"),
        ('{"threads": 1, "threads": 2}', "key 'threads' stands there twice"),
        ('{"cache": {"max_bytes": NaN}}', "NaN is no number"),
        (b'{"threads": \xff}', "cannot be read"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_is_not_a_json_object_is_an_error(tmp_path: Path, content: object, reason: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(SettingsError) as raised:
        load(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert reason in str(raised.value)


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_without_permission_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, {})
    file.chmod(0)
    with pytest.raises(SettingsError, match="cannot be read"):
        load(file)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert load(written(tmp_path, b'\xef\xbb\xbf{"threads": 2}')).threads == 2
