from probekit.results.summaries.interval import interval
from probekit.results.summaries.text_layout import interval_cells


def test_signs_stand_one_below_the_other():
    cells = interval_cells([interval([1.0, 3.0]), interval([10.0]), None], 1)
    assert cells[0].startswith("2.0 ± ") and cells[1].strip() == "10.0" and cells[2].strip() == "-"
    assert len({len(cell) - len(cell.lstrip()) for cell in cells}) == 1


def test_a_perplexity_of_many_digits_is_short():
    assert interval_cells([interval([6.4e46])], 2) == ["6.4e+46"]
    assert interval_cells([interval([999_999.0])], 2) == ["999999.00"]
