"""What notebooks show of devices, plans, profiles and tuning: tables of HTML that need nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zyx
from zyx.autotune.tuner import Tuned
from zyx.plugins.describe import columns, html_table
from zyx.runtime.tuning import Tuning

pytestmark = pytest.mark.usefixtures("interpreter")


def test_a_table_is_escaped_and_indents_and_numbers_are_kept(well_formed):
    rows = [("A", "B"), ("  <b>&", "12 B"), ("0", "\x1b[31m")]
    text = html_table(rows, ["<i>"])
    assert well_formed(text) == [["A", "B"], ["\xa0\xa0<b>&", "12 B"], ["0", "\\x1b[31m"]]
    assert '<td style="text-align: right">12 B</td>' in text
    assert '<td style="text-align: left">0</td>' in text
    assert text.endswith("<p>&lt;i&gt;</p>")
    assert columns(rows)[1] == "  <b>&  12 B"


def test_devices_are_a_list_with_a_table(well_formed):
    found = zyx.devices()
    assert found == list(found)
    assert repr(found) == repr(list(found))
    table = well_formed(found._repr_html_())
    assert [row[0] for row in table] == ["DEVICE", *found]
    assert table[-1][1] == "zyx interpreter"


def test_a_plan_is_data_with_a_table_of_steps_and_one_of_buffers(well_formed):
    x = zyx.Tensor(np.ones((4, 3), np.float32))
    plan = zyx.explain_plan((x * 2).sum(0))
    assert json.loads(json.dumps(plan)) == plan
    rows = well_formed(plan._repr_html_())
    assert rows[0][:4] == ["STEP", "KIND", "NAME", "DEVICE"]
    assert rows[1][:2] == ["0", "launch"]
    assert rows[1][3] == "interpreter:0"
    assert ["0", "input", "(4, 3)", "float32", "interpreter:0", "48 B"] in rows
    assert well_formed(zyx.explain_plan(x)._repr_html_())[1][0] == "BUFFER"


def test_a_profile_has_the_rows_that_it_prints(well_formed):
    x = zyx.Tensor(np.ones((4, 3), np.float32))
    with zyx.profile() as kernels:
        (x + 1).numpy()
    assert well_formed(kernels._repr_html_()) == [list(row) for row in kernels.table()]
    assert kernels._repr_html_().count("<p>") == len(kernels.summary())
    with zyx.profile(passes=True) as kernels:
        (x - 1).numpy()
    rows = well_formed(kernels._repr_html_())
    assert ["PASS", "CALLS", "TIME", "ONE"] in rows
    assert len(rows) == len(kernels.table()) + 1 + len(kernels.passes())


def test_tuning_has_the_rows_and_lines_that_it_prints(well_formed):
    tuning = Tuning()
    tuned = Tuned("k<1>", "c:0", "p0 = 1", 3, 1e-3, 2e-3, 1e-3, 2.0, "why", 5, ("a & b",))
    tuning.add(tuned)
    tuning.note = "over"
    assert well_formed(tuning._repr_html_()) == [list(row) for row in tuning.table()]
    assert "k&lt;1&gt;: a &amp; b</p>" in tuning._repr_html_()
    assert tuning._repr_html_().endswith("<p>over</p>")
