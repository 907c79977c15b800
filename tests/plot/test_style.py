import numpy as np
import pytest

from softqd import plot


def histogram():
    return plot.quality_histogram((np.arange(5.0), np.zeros((5, 1))))


@pytest.mark.parametrize("name", ["a.pdf", "a.PNG", "a.svg"])
def test_figures_are_the_same_bytes_every_time(tmp_path, name):
    figure = histogram()
    first = plot.save_figure(figure, tmp_path / "new" / name).read_bytes()
    starts = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    assert first.startswith(starts[name[2:].lower()])
    again = histogram()
    assert plot.save_figure(again, tmp_path / name).read_bytes() == first


def test_text_in_a_pdf_stays_text(tmp_path):
    """Type 42 fonts are embedded as TrueType; the default is type 3."""
    figure = histogram()
    written = plot.save_figure(figure, tmp_path / "a.pdf").read_bytes()
    assert b"/CIDFontType2" in written
    assert b"/Type3" not in written


def test_other_endings_are_refused(tmp_path):
    figure = histogram()
    with pytest.raises(ValueError, match=r"as .pdf, .png, .svg; got 'a.gif'; .* a.pdf"):
        plot.save_figure(figure, tmp_path / "a.gif")
