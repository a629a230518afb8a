"""The sections of backends."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from zyx.errors import SettingsError
from zyx.settings.load import load_settings
from zyx.settings.record import Settings
from zyx.settings.section import Nothing, backend_section, is_enabled

NO_FILE = Path("/nonexistent/config.json")


@dataclass(frozen=True)
class Toy:
    device_ids: list[int] | None = None
    queues: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2
    name: str = "toy"


class ToyStruct(msgspec.Struct, frozen=True):
    queues: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2


def load(given: dict[str, object] | None = None, **environ: str) -> Settings:
    return load_settings(given, environ, NO_FILE)


def test_defaults_hold_where_nothing_is_given() -> None:
    assert backend_section(load(), "toy", Toy) == Toy()


def test_values_come_from_the_section_and_from_variables_of_the_backends_name() -> None:
    settings = load(
        {"backends": {"toy": {"queues": 3, "enabled": True}}}, ZYX_TOY_DEVICE_IDS="1, 2", ZYX_TOY_NAME="x,y"
    )
    assert backend_section(settings, "toy", Toy) == Toy([1, 2], 3, "x,y")


def test_an_empty_choice_differs_from_no_choice() -> None:
    settings = load({"backends": {"toy": {"device_ids": []}}})
    assert backend_section(settings, "toy", Toy).device_ids == []
    assert backend_section(load(ZYX_TOY_DEVICE_IDS="null"), "toy", Toy).device_ids is None


def test_code_beats_the_variable_and_the_variable_beats_the_file(tmp_path: Path) -> None:
    assert backend_section(load({"backends": {"toy": {"queues": 3}}}, ZYX_TOY_QUEUES="4"), "toy", Toy).queues == 3
    file = tmp_path / "config.json"
    file.write_text('{"backends": {"toy": {"queues": 5}}}', encoding="utf-8")
    assert backend_section(load_settings(None, {"ZYX_TOY_QUEUES": "4"}, file), "toy", Toy).queues == 4
    assert backend_section(load_settings(None, {}, file), "toy", Toy).queues == 5


@pytest.mark.parametrize("record", [Toy, ToyStruct])
def test_unknown_keys_and_values_out_of_range_are_errors_with_the_path(record: type) -> None:
    with pytest.raises(
        SettingsError, match=r"code: key backends\.toy\.queue: there is no such key; did you mean 'queues'"
    ):
        backend_section(load({"backends": {"toy": {"queue": 3}}}), "toy", record)
    with pytest.raises(SettingsError, match=r"code: key backends\.toy\.queues: 17 .* a whole number \(from 1 to 16\)"):
        backend_section(load({"backends": {"toy": {"queues": 17}}}), "toy", record)
    with pytest.raises(SettingsError, match=r"ZYX_TOY_QUEUES: key backends\.toy\.queues: '17' is not accepted"):
        backend_section(load(ZYX_TOY_QUEUES="17"), "toy", record)


def test_a_backend_without_a_section_accepts_no_key_but_enabled() -> None:
    assert backend_section(load({"backends": {"toy": {"enabled": True}}}), "toy", Nothing) == Nothing()
    with pytest.raises(SettingsError, match=r"backends\.toy\.queues: there is no such key; there is none"):
        backend_section(load({"backends": {"toy": {"queues": 3}}}), "toy", Nothing)


def test_a_backend_is_switched_by_key_or_variable() -> None:
    assert is_enabled(load(), "toy") is None
    assert is_enabled(load({"backends": {"toy": {"enabled": False}}}), "toy") is False
    assert is_enabled(load(ZYX_TOY_ENABLED="off"), "toy") is False
    assert is_enabled(load(ZYX_TOY_ENABLED="1"), "toy") is True
    with pytest.raises(
        SettingsError, match=r"key backends\.toy\.enabled: 'no' is not accepted; it takes true or false"
    ):
        is_enabled(load({"backends": {"toy": {"enabled": "no"}}}), "toy")


def test_a_section_that_cannot_be_one_is_the_backends_fault() -> None:
    @dataclass(frozen=True)
    class Reserved:
        enabled: bool = True

    class NoDefault(msgspec.Struct):
        queues: int

    for record in (Reserved, NoDefault, int):
        with pytest.raises(TypeError):
            backend_section(load(), "toy", record)
