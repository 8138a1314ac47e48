"""The draft of a schema, made by looking at confidential data, for a person to turn into a public one.

A schema must be public knowledge. This draft was learned from the data, so the draft itself is confidential. It
says so in its first line, and has ``draft = true``, which all other commands refuse. A person reviews each attribute,
replaces what is not known to the public, and then removes that line.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.core.file_format import ColumnFormat, FileFormat
from understudy.core.folders import explained_disk_errors, release_above
from understudy.core.phases import tell
from understudy.core.schema import MISSING, Attribute, Edge, Level, Schema, Special, level_text
from understudy.core.schema_file import parse_schema, write_schema
from understudy.engines.reading.codebooks import Codebook, read_codebook
from understudy.engines.reading.draft_in_parts import with_sections
from understudy.engines.reading.drafted_column import (
    NUMBER,
    Profile,
    abbreviations_among,
    clock_attribute,
    discover_lines,
    spellings_among,
)
from understudy.engines.reading.drafted_edges import (
    far_above,
    far_below,
    largest_share,
    misplaced,
    round_dates,
    round_edges,
    spread_edges,
    tail_offers,
)
from understudy.engines.reading.drafted_rules import (
    WEIGHT_NAME,
    design_remarks,
    rule_candidates,
    skip_patterns,
    weight_remarks,
)
from understudy.engines.reading.guessed_format import (
    Guess,
    absent_texts,
    guess_encoding,
    guess_format,
    remark_on_absent,
    texts_of_columns,
)
from understudy.engines.reading.readers import CsvReader
from understudy.engines.reading.statfiles import Labels, StatReader
from understudy.engines.systems.local.inputs import csv_paths, open_reader, told_format, usual_delimiter
from understudy.errors import DisclosureError, InputError

RARE = 10  # rows; a level with fewer may point at somebody
MOST_LEVELS = 1000
MANY_LEVELS = 100  # if nearly all of them are rare, they are too many
FEW_NUMBERS = 15  # whole numbers with no more different values are levels
LONGEST_LEVEL = 200  # letters
REASONS = 500  # letters of reasons why nothing was drafted
LONG_TEXT = 30  # letters on average
FEW_DECIMALS = 4  # digits behind the point that somebody writes; more come out of a division
LARGEST_GROUP = 50  # rows of one household or patient
FEW_ROWS = 20  # rows of a value on average; a key that says whose rows belong together has fewer
ALWAYS_THE_SAME = 0.4  # of the rows in one of the bins of equal width: then other edges are better
MOST_IN_ONE_BIN, CLEARLY = 0.55, 0.7  # then other edges are better whatever the tail, or with few rows in one bin
ID_NAME = re.compile(
    r"(.*[_ .-])?(id|ids|uuid|key|nr|no|number|pid|hh|hid|hhid|ssn|serial|household|family|patient|person|case|client|"
    r"customer|employee|respondent|dwelling|account|\w+nr)",
    re.IGNORECASE,
)
AMOUNT_NAME = re.compile(
    r".*(wage|income|salar|earn|pay|amount|price|cost|value|total|turnover|revenue|balance|debt|asset|rent|duration|days|hours).*",
    re.IGNORECASE,
)
CODE_NAME = re.compile(
    r"(.*[_ .-])?(\w*code|codes|cd|zip|plz|puma|fips|geoid|zcta|tract|block|naics|nace|sic|isco|soc|icd|occp?|indp?|"
    r"cat|\w*category|country|nation|nationality|citizenship|birthplace|region|state|province|district|county|municipality|"
    r"canton|occupation|industry|sector|branch|religion|language|ethnicity|race|gender|sex|type|kind|class|status)\d*",
    re.IGNORECASE,
)
HEAD = """\
# CONFIDENTIAL: THIS DRAFT WAS MADE BY LOOKING AT THE DATA. KEEP IT INSIDE THE BUILDING.
#
# A schema is public, so it may say only what is known without the data: the code book, the questionnaire, the law.
# For each attribute below: add every level that is possible, also those that do not occur; remove or merge levels
# that few people have; choose edges and bounds that everybody could know; write missing = true only if it is possible.
# Read the remarks, correct what they point at, and remove them. Then remove the line draft = true.
version = 1
draft = true
"""
IDENTIFIER = (
    "looks like an identifier: nearly every row has its own value. If it names the owner of a row, it is the unit_id."
)
KEY = (
    "looks like a key: {values:,} different values, each in a few rows. If it names a unit (a household, "
    "a patient), it is the unit_id, and a unit has several rows."
)
COMMAS = "holds numbers with a decimal comma and others: write all of them in one way in the source of the data."
DAYS = (
    "holds dates that are not all written in one way, or with a two-digit year: dates are read as 2026-11-17, "
    '17.11.2026 (dates = "dmy") or 11/17/2026 ("mdy").'
)
SEEN = "the bounds were seen in the data and rounded: replace them with public ones."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What the draft says about one column."""

    attribute: Attribute | None  # None: the column is ignored
    remarks: tuple[str, ...] = ()


def draft_schema(
    data: object,
    *,
    missing_text: str = "",
    delimiter: str | None = None,
    decimal_comma: bool = False,
    encoding: str | None = None,
    table: str | None = None,
    query: str | None = None,
    codebook: str | os.PathLike[str] | None = None,
    sections: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> str:
    """Draft a commented schema for some data. The draft is confidential, and refused until it was reviewed.

    Every row is read once. Levels are those that occur (and those that a Stata, SPSS or SAS file labels), edges are
    round numbers around the range. Identifiers, free text and the like are ignored.

    Parameters
    ----------
    data
        Whatever ``open_source`` opens.
    missing_text
        What stands for a missing value in a CSV file.
    delimiter
        What separates the fields of a CSV file; found in its first line if left out.
    decimal_comma
        Whether numbers are written with a comma in a CSV file.
    encoding
        The encoding of a CSV file, such as latin-1; by default UTF-8.
    table
        The table of a database.
    query
        A query of a database.
    codebook
        A code book of the data: SDV metadata, Frictionless, CSVW (JSON) or DDI Codebook (XML). Its labels, levels,
        bounds and kinds of columns take precedence over what was seen in the data.
    sections
        Whether rules, sums and survey weights that the data suggest are written as sections, and not as remarks.
    out
        Write the draft into this new file too.

    Returns
    -------
    str
        The text of the draft, as TOML.

    Raises
    ------
    InputError
        If the data have no rows or two columns of the same name, or cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> text = draft_schema(pa.table({"sex": ["F", "M"] * 400, "age": [18 + k % 70 for k in range(800)]}))
    >>> "levels = [" in text and "edges = [" in text
    True
    """
    how: dict[str, Any] = {"table": table, "query": query}
    book = Codebook() if codebook is None else read_codebook(codebook)
    told = told_format(
        None, missing_text=missing_text, delimiter=delimiter, decimal_comma=decimal_comma, encoding=encoding
    )
    paths = csv_paths(data)
    if paths and encoding is None:
        told = replace(told, encoding=guess_encoding(paths))
    reader = open_reader(data, names=(), missing_text=missing_text, delimiter=delimiter, encoding=told.encoding, **how)
    if decimal_comma and not isinstance(reader, CsvReader):
        raise InputError("decimal_comma goes with CSV files; other files hold numbers as numbers.")
    if len(set(reader.columns)) != len(reader.columns):
        raise InputError("two columns of the data have the same name; every column needs its own.")
    guess: Guess | None = None
    if isinstance(reader, CsvReader):
        told = replace(told, delimiter=reader.delimiter if reader.delimiter != usual_delimiter(paths[0]) else None)
        guess = guess_format(texts_of_columns(reader.batches(reader.columns)), told)
        reader = open_reader(
            data, names=(), written=guess.written, delimiter=delimiter, encoding=told.encoding, declared=guess.file
        )
    profiles = {name: Profile(name=name) for name in reader.columns}
    rows = 0
    for batch in reader.batches(list(profiles)):
        tell("reading rows", rows, reader.rows)
        rows += batch.num_rows
        for name, profile in profiles.items():
            profile.add(batch.column(name), missing_text="" if reader.text_only else None)
    if not any(profile.rows for profile in profiles.values()):
        raise InputError("the data have no rows, so there is nothing to draft a schema from.")
    if isinstance(reader, StatReader):
        book = replace(
            book,
            labels=Labels(
                columns={**reader.labels.columns, **book.labels.columns},
                levels={**reader.labels.levels, **book.labels.levels},
            ),
        )
    entries = {name: _entry(profile, book) for name, profile in profiles.items()}
    drafted = {name: entry.attribute for name, entry in entries.items() if entry.attribute is not None}
    if not drafted:
        reasons = "; ".join(remark for entry in entries.values() for remark in entry.remarks[:1])
        raise InputError(f"no column of the data could be an attribute; nothing was drafted. {reasons[:REASONS]}")
    unfilled = {name: {"", *profiles[name].beside_numbers} for name in drafted}
    for name, remark in skip_patterns(reader.batches(list(drafted)), drafted, unfilled).items():
        entries[name] = replace(entries[name], remarks=(*entries[name].remarks, remark))
    for name, remarks in (guess.remarks if guess is not None else {}).items():
        entries[name] = replace(entries[name], remarks=(*remarks, *entries[name].remarks))
    rules = rule_candidates(reader.batches(list(drafted)), drafted)
    text = _text(entries, rules, None if guess is None else _declared(guess.file, drafted))
    text = with_sections(text) if sections else text
    if out is not None:
        write_draft(text, out)
    return text


def write_draft(text: str, path: str | os.PathLike[str]) -> Path:
    """Writes a draft for its owner alone (mode 0600): never over another file, never into a release."""
    target = Path(path)
    if (release := release_above(target.parent)) is not None:
        raise DisclosureError(f"{target} lies in the release {release}; a draft is confidential and stays out of it.")
    with explained_disk_errors(target):
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InputError(f"{target} already exists; choose another name with --out.") from None
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{target} cannot be written: its folder does not exist; create it first.") from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except BaseException:  # half a draft would be taken for a whole one
            target.unlink(missing_ok=True)
            raise
    return target


def _declared(file: FileFormat, drafted: Mapping[str, Attribute]) -> FileFormat | None:
    """The format of the file where it differs from the default, for columns that are attributes."""
    columns = {}
    for name, column in file.columns:
        attribute = drafted.get(name)
        if attribute is None:
            continue
        listed = {level_text(level) for level in attribute.levels}
        pairs = tuple(pair for pair in column.spellings if pair[1] in listed and pair[0] not in listed)
        if (kept := replace(column, spellings=pairs)) != ColumnFormat():
            columns[name] = kept
    found = replace(file, columns=tuple(columns.items()))
    return None if found == FileFormat() else found


def _text(entries: dict[str, _Entry], rules: Sequence[str], file: FileFormat | None) -> str:
    parts, ignored = [HEAD], []
    if file is not None:
        names = tuple(name for name, _ in file.columns)
        any_level = {level for _, column in file.columns for _, level in column.spellings} or {"any"}
        one = Schema(attributes=tuple(Attribute(name=n, levels=tuple(any_level)) for n in names) or (_ANY,), file=file)
        said = "".join(f"# {_plain(line)}.\n" for line in file.said())
        table = write_schema(one).partition("[file]")[2].partition("[[attribute]]")[0]
        parts.append(f"\n# How the file is written, as it seems. Check each line.\n{said}[file]{table.rstrip()}\n")
    for name, entry in entries.items():
        remarks = "".join(map(_comment, entry.remarks))
        if entry.attribute is None:
            ignored.append(f"\n{remarks}{_tables(Schema(attributes=(_ANY,), ignore=(name,)), '[[ignore]]')}")
        else:
            parts.append(f"\n{remarks}{_tables(Schema(attributes=(entry.attribute,)), '[[attribute]]')}")
    if rules:
        parts.append(
            "\n# Rules between columns that hold in all rows looked at. Every synthetic row would obey them.\n"
        )
        parts += [f"#\n{_comment(rule)}" for rule in rules]
    text = "".join(parts + ignored)
    parse_schema(text.replace("draft = true\n", "", 1), "the draft")
    return text


def _comment(remark: str) -> str:
    return "".join(f"# {_plain(line)}\n" for line in remark.split("\n"))


_ANY = Attribute(name="any", levels=("any",))


def _tables(schema: Schema, heading: str) -> str:
    """The part of a schema file that begins with a heading."""
    text = write_schema(schema)
    return text[text.index(heading) :]


def _entry(profile: Profile, book: Codebook) -> _Entry:
    labels, stated = book.labels, book.kinds.get(profile.name)
    if (times := clock_attribute(profile, labels.columns.get(profile.name, ""))) is not None:
        return _Entry(attribute=times[0], remarks=times[1])
    known = profile.name in labels.levels or stated in ("levels", "number")
    ignored = _reason_to_ignore(profile, known=known)
    if stated == "identifier":
        ignored = "is a key or identifies people, according to the code book."
    if ignored is not None:
        return _Entry(attribute=None, remarks=(f"'{_plain(profile.name)}' {ignored}",))
    common: dict[str, Any] = {
        "name": profile.name,
        "label": labels.columns.get(profile.name, ""),
        "missing": profile.missing > 0,
    }
    texts = _coded_labels(labels.levels.get(profile.name, {}))
    if profile.dates:
        edges = tuple(round_dates(profile.first, profile.last))
        return _Entry(attribute=Attribute(edges=edges, **common), remarks=(SEEN,))
    counts = profile.counts or Counter()
    unlabelled = [text for text in counts if text not in texts]
    amounts = profile.has_numbers
    if (stated == "number" and amounts and len(unlabelled) > FEW_NUMBERS) or (
        stated != "levels" and _has_amounts(profile, texts, unlabelled)
    ):
        entry = _numeric(profile, texts, common, book.bounds.get(profile.name, (None, None)))
    else:
        entry = _listed(profile, texts, unlabelled, common)
    return replace(entry, remarks=(*entry.remarks, *design_remarks(profile.name)))


def _has_amounts(profile: Profile, texts: dict[str, str], unlabelled: list[str]) -> bool:
    """Whether the numbers of a column are amounts; otherwise they are names of something, or not numbers."""
    if not profile.numbers or profile.boolean or profile.low > profile.high:
        return False
    if profile.counts is None:
        return True
    if _looks_coded(profile):
        return False
    numbers = len(unlabelled) - len(profile.words)
    few = numbers <= FEW_NUMBERS
    decimal = not profile.plain_integers and not texts and profile.rows_of_a_value < FEW_ROWS
    return not few or (decimal and not profile.words)


def _looks_coded(profile: Profile) -> bool:
    """Whether whole numbers look like codes (of places, occupations): by name, or few, far apart and of one length."""
    if not profile.whole or not profile.numbers or AMOUNT_NAME.fullmatch(profile.name):
        return False
    if CODE_NAME.fullmatch(profile.name):
        return True
    if len(profile.digits) != 1 or not profile.plain_integers or profile.rows_of_a_value < RARE:
        return False
    scattered = profile.different < 0.05 * (profile.high - profile.low) and min(profile.digits) >= 4
    close = 0 < profile.high < 1.1 * profile.low and min(profile.digits) >= 5  # 20001 to 20593, as postcodes are
    return scattered or close


def _reason_to_ignore(profile: Profile, *, known: bool) -> str | None:
    """Why a column is not an attribute, in words that follow its name. ``known``: the code book says that it is one."""
    counts = profile.counts
    if not profile.name or profile.name.startswith("<"):
        return "cannot be the name of an attribute; rename the column if it is needed."
    if not profile.readable:
        return "has values of a type that cannot be read."
    if profile.filled == 0:
        return "is never filled."
    if profile.numbers and not profile.finite:
        return 'holds infinite values; correct them, or describe it with edges and outside = "clip".'
    if not profile.dates and 2 * profile.other_days > profile.filled:
        return DAYS
    if 2 * profile.commas > profile.filled and profile.different > FEW_NUMBERS:
        return COMMAS
    if profile.dates or profile.boolean or (known and (profile.numbers or not _are_too_many(profile))):
        return None
    if profile.numbers and profile.low <= profile.high:
        if max(map(abs, profile.range_without([]))) > 2**53:
            return "holds numbers beyond 2^53, which are usually identifiers."
        if _counts_through(profile):
            return IDENTIFIER
        if _joins_rows(profile):
            return KEY.format(values=profile.different)
        if _looks_coded(profile) and (counts is None or _are_too_many(profile)):
            return _too_many(profile)
        return None
    if profile.letters > LONG_TEXT * profile.filled and (counts is None or len(counts) > RARE):
        return "looks like free text, which can name people; it cannot be released."
    if profile.longest > LONGEST_LEVEL:
        return f"has a value of more than {LONGEST_LEVEL} letters, as free text has; it cannot be released."
    if profile.nearly_distinct:
        return IDENTIFIER
    if counts is not None and _joins_rows(profile):
        return KEY.format(values=profile.different)
    if counts is None or _are_too_many(profile):
        return _too_many(profile)
    if MISSING in counts:
        return f"has the text '{MISSING}' as a value, which stands for missing values here; rename it in the data."
    return None


def _counts_through(profile: Profile) -> bool:
    """Whether whole numbers identify rows. Amounts may be nearly distinct too, but by chance some of them agree."""
    if not profile.whole or not profile.nearly_distinct:
        return False
    if ID_NAME.fullmatch(profile.name) or profile.serial:
        return True
    span = profile.high - profile.low + 1
    agreements = profile.filled**2 / (2 * span)  # expected among as many numbers drawn at random from the range
    if profile.counts is not None and len(profile.counts) == profile.filled and agreements > 10:
        return True
    long = len(profile.digits) == 1 and min(profile.digits) >= 7
    return long and not AMOUNT_NAME.fullmatch(profile.name)


def _joins_rows(profile: Profile) -> bool:
    """Whether a value stands for the few rows that belong together, as the number of a household does."""
    largest = max(profile.counts.values()) if profile.counts else 0
    if profile.different < 50 or largest > LARGEST_GROUP or AMOUNT_NAME.fullmatch(profile.name):
        return False
    if profile.balanced or profile.rows_of_a_value >= FEW_ROWS:
        return profile.balanced
    if profile.numbers:
        return profile.whole and ((profile.serial and profile.evenly_spread) or bool(ID_NAME.fullmatch(profile.name)))
    return bool(ID_NAME.fullmatch(profile.name)) and all(map(_has_digit, profile.counts or ()))


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _are_too_many(profile: Profile) -> bool:
    """Whether there are too many levels to say anything about them."""
    return profile.different > MOST_LEVELS or (profile.different > MANY_LEVELS and profile.rows_of_a_value < RARE / 2)


def _too_many(profile: Profile) -> str:
    number = f"more than {profile.distinct_seen - 1:,}" if profile.counts is None else f"{len(profile.counts):,}"
    return (
        f"has {number} levels; merge them into fewer than {MOST_LEVELS:,} in the data, or let a release find the "
        f"frequent ones inside its budget. For that, write:\n{discover_lines(profile.name)}"
    )


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    number = bool(NUMBER.fullmatch(text))
    return not number, float(text) if number else 0.0, text


def _listed(profile: Profile, texts: dict[str, str], unlabelled: list[str], common: dict[str, Any]) -> _Entry:
    counts = profile.counts or Counter()
    found = {*counts, *texts}
    levels: list[Level] | list[str] | list[int] | list[bool]
    if profile.boolean:
        levels = [False, True]
    elif all(re.fullmatch(r"-?(0|[1-9]\d{0,14})(\.0)?", text) and text not in ("-0", "-0.0") for text in found):
        levels = sorted({int(text.removesuffix(".0")) for text in found})
    else:
        levels = [*sorted(found, key=_order)]
        if profile.numbers and not profile.words and not texts:
            common = {**common, "ordered": True}  # 17.5, 22.0, 27.0: questions take them as the numbers they are
    remarks = []
    if len(counts) == 1:
        remarks.append("constant: every row that is filled has the same value; is it needed?")
    rare = sum(rows < RARE for rows in counts.values())
    if rare:
        remarks.append(f"rare: {rare} of {len(counts)} levels occur in fewer than {RARE} rows; merge them with others.")
        if 2 * rare > len(counts) > MANY_LEVELS / 4:
            remarks.append(f"or let a release find the frequent levels:\n{discover_lines(profile.name)}")
    if texts and unlabelled:
        remarks.append(f"{len(unlabelled)} level(s) have no label in the file; are they errors?")
    if not profile.boolean:
        remarks += [
            f"{' and '.join(map(repr, group))} may be spellings of one level; make them one in the data."
            for group in spellings_among(counts)
        ]
        remarks += [
            f"{short!r} may be short for {long!r}; if so, make them one level (spellings under [file])."
            for short, long in abbreviations_among(counts)
        ]
    if absent := absent_texts(counts):
        remarks.append(remark_on_absent(absent))
    if _looks_coded(profile) and len(counts) > FEW_NUMBERS:
        remarks.append("whole numbers that look like codes, not amounts: listed as levels.")
    numbers = {float(text) for text in counts if NUMBER.fullmatch(text)}
    codes = [code for code in profile.probable_codes() if profile.numbers and code in numbers and len(counts) > 2]
    if codes and not texts:
        remarks.append(f"probable codes for no answer among the levels: {_listed_numbers(codes)}.")
    if profile.has_numbers and not texts:  # a design of few strata has few weights
        remarks += weight_remarks(profile.name, *profile.range_without([]), profile.mean, label=common["label"])
    names = tuple(texts.get(str(level), "") for level in levels) if any(texts.values()) else ()
    return _Entry(attribute=Attribute(levels=tuple(levels), level_labels=names, **common), remarks=tuple(remarks))


def _numeric(
    profile: Profile, texts: dict[str, str], common: dict[str, Any], bounds: tuple[float | None, float | None]
) -> _Entry:
    labelled: dict[float | str, str] = {
        float(text): said or f"code {text}" for text, said in texts.items() if NUMBER.fullmatch(text)
    }
    probable = [code for code in profile.probable_codes() if code not in labelled]
    special: dict[float | str, str] = {**labelled, **{code: f"code {_whole(code)}" for code in probable}}
    low, high = profile.range_without(list(special))  # type: ignore[arg-type]  # words are added below
    remarks, seen = [SEEN], (low, high)
    if bounds != (None, None):
        remarks = [f"the code book says: from {_told(bounds[0])} to {_told(bounds[1])}."]
        if low < (low if bounds[0] is None else bounds[0]) or high > (high if bounds[1] is None else bounds[1]):
            remarks.append("there are values outside these bounds, and the edges include them: are they errors?")
        low = min([low, *(one for one in bounds[:1] if one is not None)])
        high = max([high, *(one for one in bounds[1:] if one is not None)])
    if probable:
        remarks.append(
            f"probable codes, put under special: {_listed_numbers(probable)}. Name them, or widen the edges."
        )
    if profile.words:
        special |= {word: texts.get(word) or f"code {word}" for word in sorted(profile.words)}
        shown = ", ".join(map(repr, sorted(profile.words)))
        remarks.append(f"texts among the numbers, put under special: {shown}. Say what each of them means.")
    if absent := absent_texts(profile.words):
        remarks.append(remark_on_absent(absent))
    spread = profile.without_codes(list(special))  # type: ignore[arg-type]
    even: list[Edge] = list(round_edges(low, high, whole=profile.whole))
    smallest = 10.0**-profile.decimals if 0 < profile.decimals <= FEW_DECIMALS else None
    tail = far_above(spread, seen[1]) or far_below(spread, seen[0])
    close = list(spread_edges(spread, low, high, whole=profile.whole, spikes=profile.spikes(), smallest=smallest))
    edges: list[Edge] = even
    share, moved = largest_share(spread, even), misplaced(spread, even)  # type: ignore[arg-type]
    nearer = misplaced(spread, close) / (moved or 1.0)
    crowded = share > ALWAYS_THE_SAME and (nearer < 1 or bool(profile.spikes()))
    if low < high and (crowded or share > MOST_IN_ONE_BIN or (profile.spikes() and nearer < CLEARLY)):
        edges = list(close)
        remarks.append("most values lie close together, so the edges do there; they too were seen in the data.")
        if tail:
            remarks += tail_offers(profile.spread, low, high, edges, weight=bool(WEIGHT_NAME.fullmatch(profile.name)))
    remarks += weight_remarks(profile.name, low, high, profile.mean, label=common["label"])
    if low == high:
        remarks.append("constant: every row that is filled has the same value; is it needed?")
    named: list[tuple[Special, str]] = []
    for code, said in sorted(special.items(), key=lambda pair: (isinstance(pair[0], str), pair[0])):
        plain = code if isinstance(code, str) else _whole(code)
        taken = {text for _, text in named}
        named.append((plain, said if said not in taken else f"{said} ({plain})"))
    return _Entry(
        attribute=Attribute(
            edges=tuple(edges),
            integer=profile.whole,
            special=tuple(named),
            decimals=_decimals(profile, (*edges, *(code for code, _ in named))),
            **common,
        ),
        remarks=tuple(remarks),
    )


def _decimals(profile: Profile, given: Sequence[Special]) -> int | None:
    """The number of digits after the point, if there are few, and edges and codes have no more."""
    digits = profile.decimals
    if profile.whole or not 0 < digits <= FEW_DECIMALS:
        return None
    numbers = [Fraction(str(value)) * 10**digits for value in given if isinstance(value, int | float)]
    return digits if all(number.denominator == 1 for number in numbers) else None


def _told(bound: float | None) -> str:
    return "anything" if bound is None else f"{bound:g}"


def _coded_labels(labels: dict[object, str]) -> dict[str, str]:
    """Labels by the text of their code; letters of Stata's missing values are not codes."""
    texts = {}
    for code, said in labels.items():
        if isinstance(code, float | int) and not isinstance(code, bool):
            texts[str(_whole(float(code)))] = said
        elif isinstance(code, str) and not any(isinstance(other, float | int) for other in labels):
            texts[code] = said
    return texts


def _whole(code: float) -> int | float:
    return int(code) if code == int(code) else code


def _listed_numbers(codes: list[float]) -> str:
    return ", ".join(str(_whole(code)) for code in codes)


def _plain(name: str) -> str:
    """A name that cannot end a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
