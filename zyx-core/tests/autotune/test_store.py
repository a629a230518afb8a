"""What was found by measuring is kept: for this device and these versions, sealed, and by several processes at once."""

import json
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import pytest

from zyx.autotune.store import TuningStore, Winner, digest_with, from_text, to_text
from zyx.errors import FormatError

DIGESTS = [bytes([number]) * 32 for number in range(4)]


class Device:
    def __init__(self, info):
        self.name, self.info = "toy:0", SimpleNamespace(**info)


def device(**info):
    return Device({"model": "a", "driver": "1", "units": 2} | info)


def winner(**fields):
    about = {"kernel": "sum_8", "device": "a", "what": "p0[0] = v0", "schedules": [[]], "before_s": 2.0, "seconds": 1.0}
    return Winner(**(about | {"tried": 3, "found_at": 7} | fields))


def test_an_entry_is_found_again_by_another_process(tmp_path):
    here = TuningStore(tmp_path)
    assert here.get(device(), DIGESTS[0]) is None
    assert not list(tmp_path.iterdir())  # looking makes no file
    here.put(device(), DIGESTS[0], winner())
    assert TuningStore(tmp_path).get(device(), DIGESTS[0]) == winner()
    assert TuningStore(tmp_path).get(device(), DIGESTS[1]) is None


@pytest.mark.parametrize("change", [{"model": "b"}, {"driver": "2"}, {"units": 3}], ids=str)
def test_an_entry_is_of_a_model_a_driver_and_so_many_units(tmp_path, change):
    store = TuningStore(tmp_path)
    store.put(device(), DIGESTS[0], winner())
    assert TuningStore(tmp_path).get(device(**change), DIGESTS[0]) is None


def test_an_entry_is_of_this_version(tmp_path, monkeypatch):
    TuningStore(tmp_path).put(device(), DIGESTS[0], winner())
    monkeypatch.setattr("zyx.autotune.store.__version__", "99")
    assert TuningStore(tmp_path).get(device(), DIGESTS[0]) is None


def test_without_a_folder_entries_end_with_the_store():
    store = TuningStore(None)
    store.put(device(), DIGESTS[0], winner())
    assert store.get(device(), DIGESTS[0]) == winner()
    assert TuningStore(None).get(device(), DIGESTS[0]) is None


def test_a_changed_entry_is_dropped(tmp_path, caplog):
    store = TuningStore(tmp_path)
    store.put(device(), DIGESTS[0], winner())
    store.put(device(), DIGESTS[1], winner())
    store.close()
    with sqlite3.connect(tmp_path / "schedules-1.sqlite") as file:
        file.execute(
            "UPDATE entries SET value = replace(value, 'sum', 'max') WHERE key LIKE ?", (f"%{DIGESTS[0].hex()}",)
        )
    file.close()
    assert store.get(device(), DIGESTS[0]) is None
    assert "was damaged and is dropped" in caplog.text
    assert store.get(device(), DIGESTS[1]) == winner()
    assert len(store.entries()) == 1


def test_a_file_that_is_no_database_is_started_anew(tmp_path, caplog):
    TuningStore(tmp_path).put(device(), DIGESTS[0], winner())
    (tmp_path / "schedules-1.sqlite").write_bytes(b"\0" * 4096)
    store = TuningStore(tmp_path)
    assert store.get(device(), DIGESTS[0]) is None
    assert "damaged and is started anew" in caplog.text
    store.put(device(), DIGESTS[0], winner())
    assert TuningStore(tmp_path).get(device(), DIGESTS[0]) == winner()


def test_a_genuine_entry_of_another_form_is_dropped(tmp_path, caplog):
    store = TuningStore(tmp_path)
    store.put(device(), DIGESTS[0], winner())
    (key,) = store.entries()
    store._cache(is_made=True).put(key, b'{"kernel": 3}')
    assert store.get(device(), DIGESTS[0]) is None
    assert "cannot be read and is dropped" in caplog.text


def test_a_full_disk_keeps_entries_for_this_process(tmp_path, caplog, monkeypatch):
    store = TuningStore(tmp_path)
    store.put(device(), DIGESTS[0], winner())
    cache = store._cache(is_made=True)

    def full(*_):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(cache, "_write", full)
    store.put(device(), DIGESTS[1], winner())
    assert "results are kept in memory" in caplog.text
    assert store.get(device(), DIGESTS[1]) == winner()
    assert TuningStore(tmp_path).get(device(), DIGESTS[0]) == winner()


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_store import TuningStore, device, winner
store = TuningStore(Path(sys.argv[2]))
for number in range(40):
    store.put(device(), bytes([number, int(sys.argv[3])]) * 16, winner(tried=number))
"""
    here = str(__import__("pathlib").Path(__file__).parent)
    started = [subprocess.Popen([sys.executable, "-c", code, here, str(tmp_path), str(number)]) for number in range(2)]
    assert [process.wait(60) for process in started] == [0, 0]
    assert len(TuningStore(tmp_path).entries()) == 80


def test_what_is_exported_is_imported(tmp_path):
    first, second = TuningStore(tmp_path / "a"), TuningStore(tmp_path / "b")
    for digest in DIGESTS:
        first.put(device(), digest, winner(tried=digest[0]))
    text = to_text(first.entries())
    assert second.take(from_text(text.encode(), "file")) == 4
    assert second.entries() == first.entries()
    first.forget(list(first.entries())[:3])
    assert len(first.entries()) == 1


def test_merging_takes_what_is_faster(tmp_path):
    first, second = TuningStore(tmp_path / "a"), TuningStore(tmp_path / "b")
    for digest, mine, theirs in zip(DIGESTS, (1.0, 1.0, 1.0, 1.0), (0.5, 1.5, 1.0, 0.9), strict=True):
        first.put(device(), digest, winner(seconds=mine))
        second.put(device(), digest, winner(seconds=theirs))
    assert first.take(second.entries(), only_faster=True) == 2
    assert [first.get(device(), digest).seconds for digest in DIGESTS] == [0.5, 1.0, 1.0, 0.9]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: [], "has no schedules that zyx tune export wrote"),
        (lambda data: data | {"format": "zyx schedules 2"}, "has no schedules"),
        (lambda data: data | {"schedules": [3]}, "entry 0 is wrong"),
        (lambda data: data | {"schedules": [data["schedules"][0] | {"tried": "many"}]}, "entry 0 is wrong: .*tried"),
        (lambda data: data | {"schedules": [data["schedules"][0] | {"more": 1}]}, "entry 0 is wrong: .*more"),
        (lambda data: data | {"schedules": [data["schedules"][0] | {"key": "../x"}]}, "entry 0 is wrong: .*'../x'"),
        (
            lambda data: data | {"schedules": [data["schedules"][0] | {"schedules": [[{"move": "Exec"}]]}]},
            "entry 0 is wrong: there is no move 'Exec'",
        ),
    ],
)
def test_files_of_another_kind_are_refused_as_a_whole(tmp_path, change, said):
    store = TuningStore(tmp_path)
    store.put(device(), DIGESTS[0], winner())
    data = json.loads(to_text(store.entries()))
    with pytest.raises(FormatError, match=f"file:? ?{said}"):
        from_text(json.dumps(change(data)).encode(), "file")


def test_text_that_is_no_json_is_refused():
    with pytest.raises(FormatError, match="file is not JSON"):
        from_text(b"{", "file")


def test_what_a_kernel_is_kept_by_depends_on_its_schedule():
    plain = digest_with(DIGESTS[0], None)
    assert plain == DIGESTS[0] == digest_with(DIGESTS[0], winner(schedules=None, library="blas"))
    assert digest_with(DIGESTS[0], winner()) not in (plain, digest_with(DIGESTS[0], winner(schedules=[[], []])))
    assert digest_with(DIGESTS[0], winner()) == digest_with(DIGESTS[0], winner(seconds=0.5))
