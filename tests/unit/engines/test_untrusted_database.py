"""A database is read alone: what its views or a query name elsewhere is out of reach."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import understudy as us
from understudy.engines.reading import readers
from understudy.errors import InputError

SCHEMA = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    (tmp_path / "other.csv").write_text("sex\nF\nM\n")
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'F' AS sex UNION ALL SELECT 'M'")
        connection.execute("CREATE VIEW own AS SELECT * FROM people")
        connection.execute(f"CREATE VIEW stolen AS SELECT * FROM read_csv('{tmp_path / 'other.csv'}')")
        connection.execute(f"CREATE VIEW listed AS SELECT file AS sex FROM glob('{tmp_path}/*')")
    return path


def test_its_own_tables_and_views_are_read(database: Path) -> None:
    for name in ("people", "own"):
        assert us.open_source(str(database), SCHEMA, table=name).total() == 2


@pytest.mark.parametrize("view", ["stolen", "listed"])
def test_a_view_reads_no_other_file(database: Path, view: str) -> None:
    with pytest.raises(InputError, match="reads another file") as caught:
        us.open_source(str(database), SCHEMA, table=view).total()
    assert "other.csv" not in str(caught.value)


def test_a_query_reads_no_other_file(database: Path) -> None:
    query = f"SELECT * FROM '{database.parent / 'other.csv'}'"
    with pytest.raises(InputError, match="reads another file"):
        us.open_source(str(database), SCHEMA, query=query).total()


def test_a_query_reads_no_variable_of_this_process(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB looks for an unknown table among the variables of Python, and finds whatever has its name there."""
    monkeypatch.setattr(readers, "hidden", pa.table({"sex": ["F"]}), raising=False)
    with pytest.raises(InputError, match="could not read the rows"):
        us.open_source(str(database), SCHEMA, query="SELECT sex FROM hidden").total()


def test_what_was_closed_cannot_be_opened_again(database: Path) -> None:
    reader = readers.DatabaseReader(str(database), table="people", query=None)
    with pytest.raises(duckdb.Error, match="locked"):
        reader._connection.execute("SET enable_external_access = true")


def test_what_does_not_fit_the_memory_still_goes_to_the_disk(tmp_path: Path) -> None:
    settings = readers.private_settings(str(tmp_path)) | {"memory_limit": "20MB"}
    with duckdb.connect(config=settings) as connection:
        connection.execute("CREATE TABLE many AS SELECT hash(range)::VARCHAR AS text FROM range(1000000)")
        assert any(tmp_path.iterdir())
        assert connection.execute("SELECT count(*) FROM many").fetchall() == [(1_000_000,)]
