"""The threshold of alarms that dev chooses, and what it does on test, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from probekit.metrics import alarm_threshold


@pytest.mark.parametrize("ties", [1, 4, 1000])
def test_the_threshold_is_the_lowest_with_few_false_positives(ties):
    random = np.random.default_rng(ties)
    has = random.random(2000) < 0.2
    scores = np.round((random.normal(size=2000) + 2 * has) * ties) / ties
    threshold = alarm_threshold(has, scores)
    above = scores > threshold
    false, true, _ = roc_curve(has, scores, drop_intermediate=False)
    allowed = false <= 0.01
    assert above[~has].mean() == pytest.approx(false[allowed].max())
    assert above[has].mean() == pytest.approx(true[allowed].max())
    assert not np.isin(threshold, scores)


def test_no_threshold_is_low_enough_where_the_highest_score_is_everybodys():
    assert alarm_threshold(np.array([True, False]), np.array([1.0, 1.0])) == np.inf
