"""The classes in which pictures show a number."""

from __future__ import annotations

import numpy as np

from understudy import Attribute
from understudy.evaluation.measures.numeric import _histogram
from understudy.models.found_bins import find_bins


def scale_of(attribute, counts):
    found = find_bins(attribute, counts, 20)
    return _histogram(found, np.array([0.5, 0.7]), [np.array([0.5])])[0]["scale"]


def test_amounts_near_zero_are_shown_on_their_scale_without_a_word_about_the_tail():
    votes = Attribute(name="votes", bounds=(0, 10**6), integer=True)
    assert scale_of(votes, np.where(np.array(votes.edges[:-1]) < 500, 100.0, 0.0)) == 10.0


def test_numbers_all_over_their_range_are_shown_evenly():
    share = Attribute(name="share", bounds=(0, 1))
    assert scale_of(share, np.diff(np.array(share.edges, dtype=float))) == 0.0
