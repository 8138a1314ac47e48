"""A draft in parts says what the text of the draft says: each remark belongs to its column."""

from __future__ import annotations

import pytest

from understudy import api
from understudy.core.schema_file import parse_schema
from understudy.engines.reading.draft import draft_schema
from understudy.engines.reading.draft_in_parts import MARK, read_draft
from understudy.errors import InputError

ROWS = 600


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("draft") / "people.csv"
    lines = ["id,sex,income,start,end,part,whole,note"]
    for number in range(ROWS):
        income = 99998 if number % 30 == 3 else "N" if number % 2 else 500 + 37 * (number % 90)
        note = f"a long text number {number} about somebody who lives in this town"
        start, part = number % 40, number % 17
        lines.append(f"{'ab'[number % 2]}{9000 + number},{'FM'[number % 2]},{income},{start},{start + number % 9},"
                     f"{part},{2 * part + number % 5},{note}")  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    return draft_schema(str(file))


def test_every_remark_of_the_text_is_in_a_part(text):
    draft = read_draft(text)
    told = [one for some in draft.remarks.values() for one in some] + [*draft.about_file, *draft.rules]
    said = [line[2:] for line in text.partition(MARK)[2].splitlines() if line.startswith("# ")]
    parts = [line for one in told for line in (one.text, *one.lines.splitlines())]
    headings = [line for line in said if line not in parts]
    assert {line.partition(" ")[0] for line in headings} <= {"How", "Rules"}
    assert sorted(parts) == sorted(line for line in said if line not in headings)


def test_remarks_are_about_their_column(text):
    draft = read_draft(text)
    assert any("99998" in one.text for one in draft.remarks["income"])
    assert any("'N'" in one.text for one in draft.remarks["income"])
    assert "identifier" in draft.remarks["id"][0].text
    assert "free text" in draft.remarks["note"][0].text
    assert set(draft.schema.ignore) == {"id", "note"}
    assert "sex" not in draft.remarks


def test_offered_lines_are_lines_of_a_schema(text):
    draft = read_draft(text)
    offered = [one.lines for one in draft.rules if one.lines]
    assert offered
    whole = text.replace(MARK, "") + "\n".join(line for line in offered if line.startswith("[[rule]]"))
    assert len(parse_schema(whole).rules) == sum(line.startswith("[[rule]]") for line in offered)


def test_a_schema_is_no_draft():
    with pytest.raises(InputError, match="no draft"):
        read_draft('version = 1\n[[attribute]]\nname = "sex"\nlevels = ["F", "M"]\n')


def test_the_verb_reads_and_drafts(tmp_path):
    (tmp_path / "x.csv").write_text("sex\n" + "F\nM\n" * 50)
    assert api.draft_in_parts(str(tmp_path / "x.csv")).schema.names == ("sex",)
