"""What must be answerable from a release, and which tables answer it: public facts only.

A need is one line of text: a question of the grammar (``core/questions.py``), among them a table (``crosstab(sex,
age)``) and a regression (``smokes ~ age + sex``), or ``predict(outcome)``: the outcome with every other attribute, or
``pairs()``: every two attributes; ``pairs(a, b, c)``: every two of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from keyword import iskeyword
from math import sqrt

from understudy.core.formula import Formula
from understudy.core.questions import Question, parse_question, split_call
from understudy.core.schema import Schema
from understudy.errors import InputError

Margin = tuple[str, ...]
PREDICT, PAIRS = "predict", "pairs"
MOST_NEEDS = 500
COMMENT = "#"
SUMMED = 2  # a table is left out if a larger table contains it and has at most this many times its cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One line of a workload, and the tables from which it can be answered."""

    text: str
    tables: tuple[Margin, ...]


def lines_of(text: str) -> tuple[str, ...]:
    """The needs in a text: one on a line. Empty lines, and what follows a ``#`` at the start of a line, say nothing.

    >>> lines_of("# for the yearbook\\ncrosstab(sex, age)\\n\\nsmokes ~ age + sex")
    ('crosstab(sex, age)', 'smokes ~ age + sex')
    """
    lines = (line.strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith(COMMENT)))


def quoted(name: str) -> str:
    """A name as a question writes it."""
    return name if name.isidentifier() and not iskeyword(name) else f"`{name}`"


def read_needs(schema: Schema, texts: Iterable[str]) -> tuple[Need, ...]:
    """The needs in some lines, each with its tables. A line that cannot be read is named in the error."""
    found: dict[str, Need] = {}
    for text in texts:
        if text in found:
            continue
        try:
            found[text] = Need(text=text, tables=_tables(schema, text))
        except InputError as problem:
            raise type(problem)(f"what must be answerable, '{text}': {problem}") from None
    if len(found) > MOST_NEEDS:
        raise InputError(f"{len(found):,} things must be answerable; at most {MOST_NEEDS} can be named.")
    return tuple(found.values())


def predicted_outcomes(schema: Schema) -> tuple[str, ...]:
    """The outcomes that the workload of a schema asks to predict."""
    called = (split_call(text, schema) for text in schema.workload)
    return tuple(dict.fromkeys(one[1][0] for one in called if one is not None and one[0] == PREDICT))


def needs_of(schema: Schema, texts: Iterable[str] = ()) -> tuple[Need, ...]:
    """All that must be answerable: the workload of the schema, and further lines."""
    marked = (
        Need(text=f"{quoted(one.name)} with every other attribute", tables=_star(schema, one.name))
        for one in schema.attributes
        if one.always_measure
    )
    return (*marked, *read_needs(schema, (*schema.workload, *texts)))


def _tables(schema: Schema, text: str) -> tuple[Margin, ...]:
    called = split_call(text, schema)
    if called is not None and called[0] == PREDICT:
        if len(called[1]) != 1:
            raise InputError(f"{PREDICT}() takes the name of one outcome, as in {PREDICT}(income).")
        return _star(schema, called[1][0])
    if called is not None and called[0] == PAIRS:
        if len(called[1]) == 1:
            raise InputError(f"{PAIRS}() takes no attribute (all pairs) or several, as in {PAIRS}(sex, age, smokes).")
        names = schema.margin(called[1] or None)
        return tuple(combinations(names, 2)) or (names,)
    return tables_of(schema, parse_question(text, schema))


def _star(schema: Schema, centre: str) -> tuple[Margin, ...]:
    """An attribute with each of the others; by itself where there is no other."""
    pairs = tuple(schema.margin((centre, other)) for other in schema.names if other != centre)
    return pairs or (schema.margin((centre,)),)


def tables_of(schema: Schema, question: Question) -> tuple[Margin, ...]:
    """The tables that determine the answer to a question; with the weight, if the schema has one.

    One table of all its attributes always does. A linear regression needs no more than the products of two terms: the
    cross-products of its columns are sums over such tables. The score of any other regression needs the joint table of
    the predictors, and the outcome with each term. Of these ways, the one with less noise in the products is taken.
    """
    weight = set() if schema.weight is None else {schema.weight.column}
    whole = (schema.margin({*question.used, *weight}),)
    atom = question.atoms[0]
    if atom.formula is None:
        return whole
    beside = schema.margin({*(() if atom.where is None else atom.where.names), *weight})
    several = _products(schema, atom.formula, beside, linear=atom.kind == "linear")
    return min((whole, several), key=lambda tables: _noise(schema, tables, several))


def _products(schema: Schema, formula: Formula, beside: Margin, *, linear: bool) -> tuple[Margin, ...]:
    terms = [frozenset(factor.name for factor in term) for term in formula.terms]
    outcome = frozenset((formula.outcome.name,))
    products = [outcome | term for term in terms]
    if linear:
        products += [first | second for first, second in combinations(terms, 2)]
    else:
        products.append(frozenset().union(*terms))
    found = [schema.margin({*product, *beside}) for product in products]
    return tuple(dict.fromkeys(one for one in found if not any(set(one) < set(other) for other in found)))


def _noise(schema: Schema, tables: Sequence[Margin], wanted: Sequence[Margin]) -> float:
    """Noise variance over the cells of the wanted tables, when some tables share one budget of Gaussian noise.

    The best shares are in proportion to the square root of the cells, and give a total of (sum of roots)^2. A single
    table is summed to each wanted table, so all its cells are in each of the sums.
    """
    if len(tables) == 1:
        return float(len(wanted) * schema.cells(tables[0]))
    return sum(sqrt(schema.cells(table)) for table in tables) ** 2


def required_tables(schema: Schema, needs: Iterable[Need]) -> tuple[Margin, ...]:
    """The tables for all needs together, without those that are nearly as well computed as sums of another."""
    asked = list(dict.fromkeys(table for need in needs for table in need.tables if table))
    size = {table: schema.cells(table) for table in asked}
    kept: set[Margin] = set()
    holding: dict[str, list[Margin]] = {}  # the tables kept so far that have an attribute and others
    # From the largest on: a table is spared by one that is measured, not by one that is spared itself.
    for table in sorted(asked, key=size.__getitem__, reverse=True):
        larger = (other for other in holding.get(table[0], ()) if len(other) > len(table))
        if any(size[other] <= SUMMED * size[table] and set(table) < set(other) for other in larger):
            continue
        kept.add(table)
        if len(table) > 1:  # nothing is inside a single attribute
            for name in table:
                holding.setdefault(name, []).append(table)
    return tuple(table for table in asked if table in kept)
