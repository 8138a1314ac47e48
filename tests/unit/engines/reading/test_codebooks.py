"""Code books of four kinds say the same about a table, and go before what was seen in it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from understudy.core.schema_file import parse_schema
from understudy.engines.reading.codebooks import read_codebook
from understudy.engines.reading.draft import draft_schema
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import InputError

ROWS = 400
RNG = np.random.default_rng(2)
TABLE = pd.DataFrame(
    {
        "person": [f"P{number}" for number in range(ROWS)],
        "sex": RNG.choice([1, 2], ROWS),
        "age": RNG.integers(18, 60, ROWS),
        "area": RNG.choice(np.arange(100, 140), ROWS),
    }
)
SDV = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "person",
    "columns": {
        "person": {"sdtype": "id"},
        "sex": {"sdtype": "categorical"},
        "age": {"sdtype": "numerical"},
        "area": {"sdtype": "categorical"},
    },
}
FRICTIONLESS = {
    "resources": [
        {
            "schema": {
                "primaryKey": "person",
                "fields": [
                    {"name": "person", "type": "string"},
                    {"name": "sex", "type": "integer", "title": "Sex at registration",
                     "categories": [{"value": 1, "label": "male"}, {"value": 2, "label": "female"},
                                    {"value": 3, "label": "other"}]},
                    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
                    {"name": "area", "type": "integer", "constraints": {"enum": list(range(100, 145))}},
                ],
            }
        }
    ]
}  # fmt: skip
CSVW = {
    "@context": "http://www.w3.org/ns/csvw",
    "tableSchema": {
        "primaryKey": "person",
        "columns": [
            {"name": "person", "titles": "person", "datatype": "string"},
            {"name": "sex", "titles": {"en": "sex"}, "dc:description": "Sex at registration",
             "datatype": {"base": "string", "format": "1|2|3"}},
            {"name": "age", "titles": "Age in years",
             "datatype": {"base": "integer", "minimum": "0", "maximum": "120"}},
            {"name": "area", "datatype": {"base": "string", "format": "|".join(map(str, range(100, 145)))}},
        ],
    },
}  # fmt: skip
AREAS = "".join(f"<catgry><catValu>{code}</catValu><labl>area {code}</labl></catgry>" for code in range(100, 145))
DDI = f"""<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="sex" intrvl="discrete"><labl>Sex at registration</labl>
<catgry><catValu>1</catValu><labl>male</labl></catgry><catgry><catValu>2</catValu><labl>female</labl></catgry>
<catgry><catValu>3</catValu><labl>other</labl></catgry><varFormat type="numeric"/></var>
<var name="age" intrvl="contin"><valrng><range min="0" max="120"/></valrng><varFormat type="numeric"/></var>
<var name="area" intrvl="discrete">{AREAS}</var>
</dataDscr></codeBook>"""
BOOKS = {"sdv": SDV, "frictionless": FRICTIONLESS, "csvw": CSVW, "ddi": DDI}


@pytest.fixture(params=BOOKS)
def book(request, tmp_path):
    content = BOOKS[request.param]
    path = tmp_path / f"{request.param}.{'xml' if isinstance(content, str) else 'json'}"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return request.param, path


def test_a_code_book_goes_before_what_was_seen(book):
    kind, path = book
    text = draft_schema(TABLE, codebook=path)
    schema = parse_schema(text.replace("draft = true\n", "", 1))
    assert schema.ignore == ("person",)
    assert schema["area"].levels  # 40 different numbers would be amounts
    assert schema["age"].kind == "numeric"
    if kind != "sdv":  # which knows neither labels nor levels nor bounds
        assert schema["sex"].label == "Sex at registration"
        assert schema["sex"].levels == (1, 2, 3)
        assert len(schema["area"].levels) == 45
        assert (schema["age"].edges[0], schema["age"].edges[-1]) == (0, 120)
        assert schema["age"].label == ("Age in years" if kind == "csvw" else "")  # a title that is not its name
        assert "level_labels" not in text or kind != "csvw"  # which has none
        assert "the code book says: from 0 to 120" in text
    if kind in ("frictionless", "ddi"):
        assert schema["sex"].level_labels == ("male", "female", "other")
    assert open_local(TABLE, schema).total() == ROWS


def test_values_beyond_the_bounds_are_remarked_on(tmp_path):
    path = tmp_path / "book.json"
    path.write_text(json.dumps({"fields": [{"name": "age", "type": "integer", "constraints": {"maximum": 30}}]}))
    text = draft_schema(TABLE, codebook=path)
    assert "outside these bounds" in text
    assert open_local(TABLE, parse_schema(text.replace("draft = true\n", "", 1))).total() == ROWS


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("hello", "neither JSON nor XML"),
        ("[1, 2]", "no code book"),
        ('{"fields": [{"type": "integer"}]}', "not what its kind says"),
        ('{"fields": [3]}', "not what its kind says"),
        ("<codeBook", "well-formed"),
        ("<codeBook/>", "no variable"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><codeBook/>', "entities"),
    ],
)
def test_what_is_no_code_book_is_refused_in_words(tmp_path, content, says):
    path = tmp_path / "book"
    path.write_text(content)
    with pytest.raises(InputError, match=says):
        read_codebook(path)


def test_a_code_book_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_codebook(tmp_path / "none.json")
