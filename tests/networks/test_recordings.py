"""Recordings of neurons, read from CSV files."""

import sys

import numpy as np
import pytest

import softqd
from softqd.networks._recordings import load_recording

HEAD = "time (ms),current (pA),voltage (mV)\n"


def test_a_file_is_read_from_its_first_moment(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(HEAD + "5.0,0,-70.5\n5.1,300,-70.25\n5.3,300,-69\n")
    name, time, current, voltage = load_recording(str(path))
    assert name == "mine"
    np.testing.assert_allclose(time, [0.0, 0.1, 0.3], atol=1e-12)
    np.testing.assert_array_equal(current, [0, 300, 300])
    np.testing.assert_array_equal(voltage, [-70.5, -70.25, -69])


def test_the_recording_that_comes_along_is_as_the_page_says():
    """80 ms at 10 kHz, 300 pA from 10 to 70 ms, four spikes."""
    _, time, current, voltage = load_recording()
    np.testing.assert_allclose(time, np.arange(801) / 10, atol=1e-9)
    np.testing.assert_array_equal(current, 300.0 * ((time >= 9.99) & (time < 69.99)))
    rises = (voltage[1:] > -20) & (voltage[:-1] <= -20)
    assert rises.sum() == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD, r"mine.csv needs lines 'time in ms, .*; got 0 lines"),
        (HEAD + "0,1\n1,1\n", r"got 2 lines of 2 numbers"),
        (HEAD + "0,a,1\n", r"mine.csv needs lines .*'a'"),
        (HEAD + "0,0,-70\n0,0,-70\n", r"times that rise"),
        (HEAD + "0,0,-70\n1,0,nan\n", r"numbers that are finite"),
        (HEAD + "\xff\xfe0,0,-70\n1,0\n", r"mine.csv needs lines"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, text, says):
    path = tmp_path / "mine.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=says):
        load_recording(str(path))


def test_no_file_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"no.csv cannot be read \(No such file.*give the path"
    ):
        load_recording(str(tmp_path / "no.csv"))


def test_without_jaxley_one_line_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxley", None)
    monkeypatch.delitem(sys.modules, "softqd.problems._neuron_cell", raising=False)
    says = "^neurons need the package 'jaxley': run pip install \"softqd.neurons.\"$"
    with pytest.raises(ValueError, match=says):
        softqd.problems.neurons()
