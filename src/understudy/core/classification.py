"""A public classification of codes as a CSV file: occupations, diagnoses, postcodes, with their groups if there are
any."""

from __future__ import annotations

import csv
from pathlib import Path

from understudy.errors import SchemaError

CODE, PARENT = "code", "parent"


def read_classification(name: str, folder: Path, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The codes of a file and the parent of each; no parents if the file has no such column.

    The file is UTF-8 text with a column ``code`` and possibly a column ``parent``; other columns are not read. It must
    be public: every code in it becomes part of the schema.
    """
    file = folder / path
    where = f"attribute '{name}': the classification {file}"
    try:
        with file.open(newline="", encoding="utf-8-sig") as handle:
            lines = csv.DictReader(handle)
            columns = lines.fieldnames or ()
            if CODE not in columns:
                raise SchemaError(f"{where} needs a line of column names with a column '{CODE}'.")
            rows = [(row[CODE] or "", (row.get(PARENT) or "")) for row in lines]
    except FileNotFoundError:
        raise SchemaError(f"{where} does not exist; its path is relative to the schema file.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise SchemaError(f"{where} cannot be read as UTF-8 CSV ({type(problem).__name__}).") from None
    codes = tuple(code.strip() for code, _ in rows)
    return codes, tuple(parent.strip() for _, parent in rows) if PARENT in columns else ()
