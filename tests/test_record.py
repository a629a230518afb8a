"""The record of measurements: the form of its files, its means, its parts that fail, and the page."""

from __future__ import annotations

import dataclasses
import datetime
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

import record
import record_history
import record_picture
from record_entries import NOT_NOTED, Entry, RecordError, Topic, read_topics, toml_of, topic_of
from record_means import control_of, figure_of, ratios, times_of_rows
from record_page import section_of
from record_parts import PARTS, Part, Setting
from record_process import PartError, output_of

BENCHMARKS = Path(record.__file__).parent
DAY = datetime.date(2026, 11, 22)
ENTRY = Entry("a | b", '3 "us"', 'run \\ "x"', "3f09324", "a GPU", DAY, '| a |\n|---|\n| """\\ |')
SETTING = Setting("cpu", None, sys.executable, NOT_NOTED, "a processor", DAY)


def test_what_is_written_is_read_again() -> None:
    assert topic_of(f'title = "T"\n{toml_of(ENTRY)}', "t.toml") == Topic("T", "", (ENTRY,))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "T"', "", "t.toml: title is None; it is a text of one line"),
        ('figure = "f"', "", r"t.toml, entry 1 \(c\): figure is None; it is a text of one line"),
        ('figure = "f"', "figure = 3", r"t.toml, entry 1 \(c\): figure is 3; it is a text of one line"),
        ('figure = "f"', 'figure = "f\\ng"', "it is a text of one line"),
        ('commit = "3f09324"', 'commit = "main"', "commit is 'main'; it is 7 to 40 hexadecimal digits, or 'not noted'"),
        ("date = 2026-11-22", 'date = "2026-11-22"', "date is '2026-11-22'; it is a day without quotes"),
        ("date = 2026-11-22", "date = 2026-11-22T10:00:00", "it is a day without quotes"),
        ("date = 2026-11-22", "date = 2026-11-22\ndetail = 1", r"entry 1 \(c\): detail is none of its fields: claim"),
        ("date = 2026-11-22", "date = 2026-11-22\ndetails = 1", "details is 1; it is a text"),
        ("[[entries]]", "[entries]", r"a topic has entries, tables that begin with \[\[entries\]\]"),
        ("[[entries]]", "[[entries", "t.toml is not TOML"),
    ],
)
def test_what_is_not_of_the_form_is_refused_and_named(old: str, new: str, said: str) -> None:
    text = (
        'title = "T"\n[[entries]]\nclaim = "c"\nfigure = "f"\ncommand = "x"\n'
        'commit = "3f09324"\ndevice = "d"\ndate = 2026-11-22\n'
    )
    assert topic_of(text, "t.toml").entries[0].date == DAY
    with pytest.raises(RecordError, match=said):
        topic_of(text.replace(old, new), "t.toml")


def test_a_folder_without_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="has no topics"):
        read_topics(tmp_path)


def test_a_section_has_a_row_and_details() -> None:
    lines = section_of(Topic("T", "About.", (ENTRY,))).splitlines()
    assert lines[:3] == ["## T", "", "About."]
    assert lines[6] == '| a \\| b | 3 "us" | `run \\ "x"` | `3f09324` | a GPU | 2026-11-22 |'
    assert lines[8:11] == ["### A | b", "", "| a |"]


def test_commits_are_told_apart_from_what_is_none(tmp_path: Path) -> None:
    topic = Topic("T", "", (ENTRY, Entry("c", "f", "x", NOT_NOTED, "d", DAY)))
    assert record_history.unknown_commits([topic], ["3f09324" + "0" * 33]) == []
    assert record_history.unknown_commits([topic], ["0" * 40]) == ["T: 3f09324"]
    with pytest.raises(record_history.NoHistoryError, match="rev-parse"):
        record_history.history(tmp_path)


def test_a_clone_of_the_newest_commits_has_no_history(tmp_path: Path) -> None:
    mine = ("-c", "user.name=nobody", "-c", "user.email=", "-c", "commit.gpgsign=false")
    whole = tmp_path / "whole"
    record_history.git("init", "-q", str(whole), root=tmp_path)
    for number in (1, 2):
        record_history.git(*mine, "commit", "-q", "--allow-empty", "-m", str(number), root=whole)
    assert len(record_history.history(whole)) == 2
    record_history.git("clone", "-q", "--depth", "1", f"file://{whole}", "shallow", root=tmp_path)
    with pytest.raises(record_history.NoHistoryError, match="git fetch --unshallow"):
        record_history.history(tmp_path / "shallow")


def test_means_have_peers_as_control() -> None:
    cases = [{"zyx": 1e-3, "numpy": 4e-3, "jax": 2e-3}, {"zyx": 2e-3, "numpy": 1e-3}, {"numpy": 1.0}]
    assert ratios(cases) == [2, 0.5]
    assert ratios(cases, "numpy") == [4, 0.5]
    assert figure_of(cases, 1).startswith("fastest peer's time over zyx's: geometric mean 1.000, 10th percentile 0.50")
    assert figure_of(cases, 1).endswith("of 2 of 3 cases; zyx failed in 1")
    assert control_of(cases).splitlines()[2:] == [
        "| zyx | 1 |  |",
        "| jax | 2 | 2.000 (1) |",
        "| numpy | 4 | 1.414 (2) |",
    ]
    with pytest.raises(ValueError, match="no case has times of zyx and of a peer"):
        figure_of(cases[2:], 0)


def test_rows_of_fresh_processes_are_apart() -> None:
    results = {
        "workloads": {"sum": {"group": "reduction"}, "import_time": {"group": "process"}},
        "results": {"sum": {"zyx": {"s": 1.0}, "jax": {}, "limit": {"s": 0.5}}, "import_time": {"zyx": {"s": 2.0}}},
    }
    assert times_of_rows(results, of_processes=False) == {"sum": {"zyx": 1.0}}
    assert times_of_rows(results, of_processes=True) == {"import_time": {"zyx": 2.0}}


def test_a_program_that_fails_or_hangs_says_what_it_printed_last() -> None:
    assert output_of([sys.executable, "-c", "print(1)"], 60) == "1\n"
    with pytest.raises(PartError, match=r"(?s)ended with status 3, and printed last:\nso$"):
        output_of([sys.executable, "-c", "print('so'); raise SystemExit(3)"], 60)
    with pytest.raises(PartError, match="took longer than 1 s"):
        output_of([sys.executable, "-c", "import time; time.sleep(60)"], 1)


def test_a_part_that_fails_is_shown_and_the_others_are_printed(tmp_path: Path, capsys) -> None:
    def fails(setting: Setting, limit_s: float) -> list[Entry]:
        raise PartError("no such luck")

    limits = {"cpu": 5.0}
    parts = [
        Part("bad", False, limits, fails),
        Part("compared", True, limits, fails),
        Part("good", False, limits, lambda *_: [ENTRY]),
    ]
    out = tmp_path / "entries.toml"
    assert record.measure(parts, SETTING, out) == 1
    printed = capsys.readouterr()
    assert "bad: FAILED: PartError: no such luck" in printed.err
    assert "compared: left out, since it needs the comparison with other libraries (--bench PATH)" in printed.err
    assert "1 of 3 parts failed: bad" in printed.err
    assert printed.out.strip() == out.read_text(encoding="utf-8").strip() == toml_of(ENTRY).strip()
    assert record.measure(parts[1:], SETTING, None) == 0


def test_all_parts_fit_their_time() -> None:
    for kind, limit_s in record.LIMIT_S.items():
        assert sum(part.limit_s[kind] for part in PARTS) <= limit_s


def test_without_the_comparison_its_parts_are_said_to_be_left_out() -> None:
    command = [sys.executable, str(BENCHMARKS / "record.py"), "--parts", "rows,cold"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "rows: left out" in done.stderr
    assert "cold: left out" in done.stderr


@pytest.mark.parametrize("arguments", [["--parts", "nonsense"], ["--bench", "/nonsense"], ["--device", "tpu"]])
def test_what_is_not_there_is_refused(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as refused:
        record.main(arguments)
    assert refused.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


STAND_IN = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=pathlib.Path)
given, _ = parser.parse_known_args()
meta = {"left_out": 1, "threads": 2, "versions": {"zyx": "zyx 1", "jax": "jax 2"}, "foreign_median": 0.25}
peers = {"zyx": {"status": "ok", "s": 1.0}, "jax": {"status": "ok", "s": 1.5}}
results = {"meta": meta, "peers": list(peers), "cases": [{"peers": peers}]}
(given.out / "results.json").write_text(json.dumps(results))
"""


def test_the_comparison_gives_entries_that_do_not_name_its_folder(tmp_path: Path) -> None:
    for script in ("run.py", "sweep.py"):
        (tmp_path / script).write_text(STAND_IN)
    part = next(part for part in PARTS if part.name == "sweep-100")
    (entry,) = part.measure(Setting("cpu", tmp_path, sys.executable, NOT_NOTED, "a processor", DAY), 40)
    assert entry.command == "python sweep.py --device cpu --seed 100 --cases 2 --deadline 30"
    assert entry.figure.endswith("of 1 of 1 cases; zyx failed in 0; 1 left out when the time was over")
    assert "geometric mean 1.500" in entry.figure
    assert entry.details.endswith("2 threads; zyx 1, jax 2. Other programs took 25% of the processors (median).")


PANEL = record_picture.Panel("beside", "a title", "zyx", ("P", "J"))
TABLE = (
    "| program | zyx | P | J |\n|---|---|---|---|\n| sum: f32[3] | 1.0 | 2.0 | 3.0 |\n| pkg/a/net.onnx | 2 | 1.5 | 1 |"
)


def beside(details: str) -> list[Topic]:
    return [Topic("T", "", (dataclasses.replace(ENTRY, claim="beside", figure="a < b", details=details),))]


def test_a_picture_has_a_bar_for_each_row_and_says_where_and_when() -> None:
    topics = beside(f"Said before.\n\n{TABLE}")
    assert record_picture.ratios_of(topics[0].entries[0], PANEL) == [("sum", 2.0), ("pkg net", 0.5)]
    picture = record_picture.picture_of(topics, [PANEL])
    root = ElementTree.fromstring(picture)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"sum", "pkg net", "beside: a < b", "a GPU, 2026-11-22, commit 3f09324"} <= set(texts)
    _, faster, slower = (float(each.get("width")) for each in root.iter("{http://www.w3.org/2000/svg}rect"))
    assert faster == slower > 0  # twice as fast, and half
    assert picture == record_picture.picture_of(topics, [PANEL])


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ("no table", "the details have no table with zyx, P, J"),
        (TABLE.replace("2.0", "-"), "the row 'sum: f32[3]' has no times"),
        (TABLE.replace("1.0", "0.01"), "200 of 'sum: f32[3]' is outside the axis"),
    ],
)
def test_a_row_that_cannot_be_drawn_is_an_error(details: str, said: str) -> None:
    with pytest.raises(RecordError, match=re.escape(said)):
        record_picture.picture_of(beside(details), [PANEL])


def test_an_entry_that_is_to_be_drawn_has_to_be_there() -> None:
    with pytest.raises(RecordError, match="0 entries claim 'beside'"):
        record_picture.picture_of([Topic("T", "", (ENTRY,))], [PANEL])
