"""An evaluation reads the confidential data once, whatever it measures."""

from __future__ import annotations

import warnings

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.engines.reading.readers import ArrowReader


def test_the_confidential_data_are_read_once(monkeypatch):
    schema = small_schema()
    data, others = make_people(300, seed=1), make_people(200, seed=2)
    people, holdout = us.open_source(data, schema), us.open_source(others, schema)
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(us.open_source(data, schema), budget=us.PureDP(epsilon=1), method="independent")
    read = []
    batches = ArrowReader.batches

    def counted(self, *args, **settings):
        read.append(self)
        return batches(self, *args, **settings)

    monkeypatch.setattr(ArrowReader, "batches", counted)
    us.evaluate(release, people, holdout=holdout, models=["smokes ~ age"], keys=["sex", "region"])
    assert [read.count(source._reader) for source in (people, holdout)] == [1, 1]
