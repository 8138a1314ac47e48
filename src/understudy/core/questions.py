"""What can be asked of a release: one small grammar, read from Python's syntax tree and never evaluated.

    proportion(condition)          count(condition)             mean(attribute)           sum(attribute)
    quantile(attribute, 0.9)       median(attribute)            std(attribute)            variance(attribute)
    gini(attribute)                poverty_rate(attribute)      poverty_rate(attribute, 0.5)
    correlation(a, b)              crosstab(a, b, ...)          association(a, b)
    difference(question, question)  or  question - question     ratio(question, question)  or  question / question
    outcome ~ terms   (see core/formula.py)

Every function takes ``where=condition`` for a subgroup. Those of one quantity take ``by=attribute`` or ``by=[a, b]``:
the quantity in every group. ``mean`` and ``sum`` also take a derived sum or difference. ``crosstab`` takes
``percent='row'`` (shares of the last attribute among people who agree in the others) and ``percent='column'`` (of the
first). Names that are no Python names are written in backticks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from understudy.core.bins import bins_of, level_numbers
from understudy.core.conditions import Among, Condition, Joined, read_condition, read_name
from understudy.core.derived_attributes import Derived
from understudy.core.formula import Formula, parse_formula
from understudy.core.regression_terms import hide_quoted
from understudy.core.schema import Level, Schema, level_text
from understudy.errors import InputError, UnknownNameError, UnsupportedError, unknown_name

FAMILIES = ("linear", "logit", "probit", "poisson", "multinomial", "ordered")
OF_EVENTS = ("logit", "probit")  # families with a binary outcome: one level or not
OF_COUNTS = ("count", "sum")  # of the records, and not of the population they are a sample of
POVERTY = "poverty_rate"  # the share below a share of the median, by default 0.6: at risk of poverty
NUMBERS = ("mean", "sum", "std", "variance", "quantile", "gini", POVERTY)  # of one attribute with numbers
SINGLE = ("proportion", "count", *NUMBERS, "correlation")  # one quantity, which can be asked for by groups
KINDS = (*SINGLE, "difference", "ratio", "crosstab", "association", *FAMILIES)
PERCENT = ("total", "row", "column")
LINEAR = ("mean", "sum")  # of these that of a derived sum follows from its parts
OPERATORS = {"-": "difference", "/": "ratio"}
LONGEST = 5000
DATE = r"\b\d{4}-\d{1,2}-\d{1,2}\b"
EXAMPLE = "proportion(sex == 'F'), mean(age, where=sex == 'F'), crosstab(sex, smokes) or 'smokes ~ age + sex'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One quantity: what is asked (``kind``), of which attributes, on whom."""

    kind: str
    text: str
    names: tuple[str, ...] = ()
    condition: Condition | None = None
    at: float = 0.5
    where: Condition | None = None
    formula: Formula | None = None
    event: int | None = None
    by: tuple[str, ...] = ()
    percent: str = ""  # of a cross-tabulation: within what its shares add up to one
    signs: tuple[int, ...] = ()  # of a derived sum or difference: how each of ``names`` enters it

    @property
    def used(self) -> tuple[str, ...]:
        """Every attribute the quantity depends on."""
        found = [*self.names, *self.by]
        for one in (self.condition, self.where):
            found += [] if one is None else one.names
        found += [] if self.formula is None else self.formula.names
        return tuple(dict.fromkeys(found))

    @property
    def cuts(self) -> tuple[Among, ...]:
        """The bounds in it that cut through a bin."""
        return tuple(cut for one in (self.condition, self.where) if one is not None for cut in one.cuts)

    def settled(self, *, most: bool) -> Atom:
        """A share or a number of people without those of whom it is open whether they are meant; or with all of them.

        A share in a subgroup is least if of the people who may be in the subgroup those are who have not the value, and
        of those who have it only who surely is. It is largest the other way round.
        """
        if not self.cuts or self.condition is None:
            return self
        has = self.condition.settled(most=most)
        if self.where is None:
            return replace(self, condition=has)
        within, others = self.where.settled(most=most), self.where.settled(most=not most)
        if self.kind == "count" or within == others:
            return replace(self, condition=has, where=within)
        having = Joined(word="and", parts=(has, within))
        lacking = Joined(word="and", parts=(Joined(word="not", parts=(has,)), others))
        return replace(self, condition=has, where=Joined(word="or", parts=(having, lacking)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One atom, or the difference or the ratio of two."""

    text: str
    atoms: tuple[Atom, ...]
    operator: str = ""

    @property
    def kind(self) -> str:
        return OPERATORS.get(self.operator, self.atoms[0].kind)

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.used))

    @property
    def cuts(self) -> tuple[Among, ...]:
        """The bounds in it that cut through a bin."""
        return tuple(cut for atom in self.atoms for cut in atom.cuts)

    def settled(self, *, most: bool) -> Question:
        """The question whose true answer is the least that this one's can be, wherever in their bins people are; with
        ``most`` the largest. What is subtracted, or divided by, is the largest for the least."""
        return replace(
            self,
            atoms=tuple(atom.settled(most=most != bool(place)) for place, atom in enumerate(self.atoms)),
        )


def parse_question(
    text: str,
    schema: Schema,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Question:
    """Read a question. ``family`` and ``event`` go with a formula; ``where`` is a subgroup for any question, ``by``
    attributes whose groups each get an answer.

    >>> from understudy.core.schema import Attribute
    >>> schema = Schema(attributes=(Attribute(name="sex", levels=("F", "M")), Attribute(name="age", edges=(0, 18, 99))))
    >>> question = parse_question("mean(age, where=sex == 'F')", schema)
    >>> question.kind, question.used
    ('mean', ('age', 'sex'))
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"a question must be a text such as {EXAMPLE}.")
    if len(text) > LONGEST:
        raise InputError(f"a question may have at most {LONGEST:,} characters.")
    try:
        return _read(text, schema, family=family, event=event, where=where, by=by)
    except RecursionError:
        raise InputError("the question is nested too deeply to be read; write it with fewer brackets.") from None


def _read(
    text: str,
    schema: Schema,
    *,
    family: str | None,
    event: Level | None,
    where: str | None,
    by: str | Sequence[str] | None,
) -> Question:
    group = None if where is None else _condition(where, schema)
    operator = ""
    if "~" in re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", text):
        atoms: tuple[Atom, ...] = (_regression(text, schema, family, event),)
    else:
        if family is not None or event is not None:
            raise InputError("family and event go with a formula such as 'smokes ~ age + sex'.")
        node, names = _tree(text)
        atoms, operator = _atoms(node, schema, names, text)
    if group is not None:
        atoms = tuple(replace(atom, where=_both(atom.where, group)) for atom in atoms)
    if by:
        if atoms[0].by:
            raise InputError(f"'{text}' says by twice.")
        wanted = (by,) if isinstance(by, str) else tuple(by)
        for name in wanted:
            if name not in schema.names:
                raise unknown_name("attribute", str(name), schema.names)
        atoms = tuple(_by(atom, wanted, text) for atom in atoms)
    if operator and any(atom.by for atom in atoms):
        raise InputError(
            f"'{text}': by goes with one quantity; ask for a {OPERATORS[operator]} in each group by where."
        )
    _check_cuts(atoms)
    return Question(text=text.strip(), atoms=atoms, operator=operator)


def _check_cuts(atoms: tuple[Atom, ...]) -> None:
    """A bound inside a bin goes with shares and numbers of people: other quantities among people who may or may not be
    meant have no simple bounds."""
    for atom in atoms:
        if atom.cuts and atom.condition is None:
            raise InputError(atom.cuts[0].said)


def _by(atom: Atom, by: tuple[str, ...], text: str) -> Atom:
    """The same quantity in every group of some attributes."""
    if atom.kind not in SINGLE:
        raise InputError(f"'{text}': by goes with {', '.join(SINGLE)}; of a {atom.kind} there is no table.")
    if len(set(by)) != len(by) or set(by) & set(atom.names):
        raise InputError(f"'{text}': by takes different attributes, which the quantity is not about.")
    return replace(atom, by=by)


def _both(first: Condition | None, second: Condition) -> Condition:
    return second if first is None else Joined(word="and", parts=(first, second))


def _tree(text: str) -> tuple[ast.expr, Mapping[str, str]]:
    """The syntax tree, with names in backticks put behind placeholders."""
    plain, names = hide_quoted(text)
    try:
        return ast.parse(plain, mode="eval").body, names
    except SyntaxError as error:
        raise InputError(_unreadable(text, plain, error.offset)) from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError(_unreadable(text, "", None)) from None


# What statistics packages call the same, to be named in a refusal.
USUAL_NAMES = {
    "mean": ("avg", "average"),
    "proportion": ("prop", "share", "percent", "percentage", "rate"),
    "count": ("n", "freq", "frequency", "number", "len"),
    "sum": ("total",),
    "std": ("sd", "stdev", "stddev"),
    "variance": ("var",),
    "correlation": ("corr", "cor", "pearson"),
    "quantile": ("percentile", "pctl", "quant"),
    "crosstab": ("xtab", "xtabs", "tab", "table", "tabulate", "crosstabs"),
    "association": ("cramer", "cramersv", "chisq", "chi2"),
}


def _unreadable(text: str, plain: str, offset: int | None) -> str:
    """Where a question cannot be read, and what was expected there."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", lambda match: "_" * len(match[0]), plain)
    date = re.search(DATE, bare)
    if date:
        return f"'{text}': write the date {date[0]} in quotes, as in born < '{date[0]}'."
    for name in re.findall(r"(\w+)\s*(?<![=!<>])=(?!=)", bare):
        if name not in ("where", "by"):
            return f"'{text}': after '{name}' write == to compare; a single = is for where= and by= only."
    opened, closed = bare.count("(") + bare.count("["), bare.count(")") + bare.count("]")
    if opened != closed:
        return (
            f"'{text}': {'a bracket is opened and not closed' if opened > closed else 'a bracket is closed too often'}."
        )
    near = plain[max(0, offset - 1) :][:20] if offset and offset <= len(plain) else ""
    where = f" from '{near}' on" if near else ": its end is missing" if plain and offset else ""
    return (
        f"'{text}' cannot be read{where}. Ask for example {EXAMPLE}. A name with spaces, or one that means something "
        "to Python (class, from), is written in backticks."
    )


def _condition(text: str, schema: Schema) -> Condition:
    node, names = _tree(text)
    return read_condition(node, schema, names, text)


def split_call(text: str, schema: Schema) -> tuple[str, tuple[str, ...]] | None:
    """A call of a function with attributes alone: its name and theirs; ``None`` for anything else."""
    if not isinstance(text, str) or "~" in text:
        return None
    try:
        node, names = _tree(text)
    except InputError:
        return None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return None
    if not all(isinstance(argument, ast.Name) for argument in node.args):
        return None
    return node.func.id, tuple(read_name(argument, schema, names, text) for argument in node.args)


def _atoms(node: ast.expr, schema: Schema, names: Mapping[str, str], text: str) -> tuple[tuple[Atom, ...], str]:
    """One quantity or two, and what is done with two."""
    parts: tuple[ast.expr, ...] = ()
    operator = ""
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        parts, operator = (node.left, node.right), "-" if isinstance(node.op, ast.Sub) else "/"
    elif isinstance(node, ast.Call) and called in OPERATORS.values():
        if len(node.args) != 2 or node.keywords:
            raise InputError(f"'{text}': {called}() takes two questions.")
        parts = (node.args[0], node.args[1])
        operator = next(sign for sign, word in OPERATORS.items() if word == called)
    if not parts:
        return (_atom(node, schema, names, text),), ""
    atoms = tuple(_atom(part, schema, names, text) for part in parts)
    word = OPERATORS[operator]
    if any(atom.kind not in SINGLE for atom in atoms):
        raise InputError(f"'{text}': a {word} is between two proportions, counts, means or other single quantities.")
    if operator == "-" and atoms[0].kind != atoms[1].kind:
        raise InputError(f"'{text}': a difference is between two quantities of one kind.")
    if (atoms[0].kind in OF_COUNTS) != (atoms[1].kind in OF_COUNTS):
        raise InputError(f"'{text}': counts and sums are of the records; a {word} needs two of them or none.")
    if operator == "/":
        for atom in atoms:
            if atom.kind == "correlation" or (atom.kind in NUMBERS and _may_be_negative(atom, schema)):
                raise UnsupportedError(f"'{text}': a ratio needs quantities that cannot be negative.")
    return atoms, operator


def _may_be_negative(atom: Atom, schema: Schema) -> bool:
    least = [bins_of(schema[name]).low[0] for name in atom.names]
    return min(least) < 0 or -1 in atom.signs


def _atom(node: ast.expr, schema: Schema, names: Mapping[str, str], text: str) -> Atom:
    readers = {
        "proportion": _share,
        "count": _share,
        **dict.fromkeys((*NUMBERS, "median"), _number),
        "crosstab": _table,
        "association": _table,
        "correlation": _table,
    }
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise InputError(f"'{text}' is not a question. Ask for example {EXAMPLE}.")
    name = node.func.id
    if name not in readers:
        usual = next((word for word, others in USUAL_NAMES.items() if name.lower() in others), name)
        if usual != name:
            raise UnknownNameError(f"question '{name}' is unknown here; it is called '{usual}'.")
        raise unknown_name("question", name, (*readers, *OPERATORS.values()))
    where = None
    by: tuple[str, ...] = ()
    percent: object = "total"
    for keyword in node.keywords:
        if keyword.arg in schema.names or keyword.arg in names:
            said = names.get(str(keyword.arg), str(keyword.arg))
            raise InputError(f"'{text}': after '{said}' write == to compare; a single = is for where= and by= only.")
        if keyword.arg == "percent" and name == "crosstab":
            percent = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if percent not in PERCENT:
                raise InputError(f"'{text}': percent must be one of {', '.join(map(repr, PERCENT))}.")
            continue
        if keyword.arg not in ("where", "by"):
            raise InputError(f"'{text}': {name}() knows the keywords where and by only, as in where=sex == 'F'.")
        if (where is not None and keyword.arg == "where") or (by and keyword.arg == "by"):
            raise InputError(f"'{text}' says {keyword.arg} twice; join conditions by and, and attributes by [a, b].")
        if keyword.arg == "by":
            listed = keyword.value.elts if isinstance(keyword.value, ast.List | ast.Tuple) else [keyword.value]
            by = tuple(read_name(one, schema, names, text) for one in listed)
        else:
            where = read_condition(keyword.value, schema, names, text)
    atom: Atom = readers[name](name, node.args, schema, names, text)
    if percent != "total" and len(atom.names) < 2:
        raise InputError(f"'{text}': percentages by row or column need two attributes.")
    atom = replace(atom, where=where, percent="" if percent == "total" else str(percent))
    return _by(atom, by, text) if by else atom


def _share(kind: str, args: list[ast.expr], schema: Schema, names: Mapping[str, str], text: str) -> Atom:
    if len(args) != 1:
        raise InputError(f"'{text}': {kind}() takes one condition, as in {kind}(sex == 'F').")
    return Atom(kind=kind, text=text, condition=read_condition(args[0], schema, names, text))


def _number(kind: str, args: list[ast.expr], schema: Schema, names: Mapping[str, str], text: str) -> Atom:
    wanted = 2 if kind == "quantile" or (kind == POVERTY and len(args) == 2) else 1
    if len(args) != wanted:
        raise InputError(f"'{text}': {kind}() takes an attribute{' and a share' if wanted == 2 else ''}.")
    total = _derived_total(args[0], schema, names) if kind in LINEAR else None
    if total is not None:
        for source in total.sources:
            bins_of(schema[source])
        signs = tuple(1 if place == 0 or total.function == "sum" else -1 for place in range(len(total.sources)))
        return Atom(kind=kind, text=text, names=total.sources, signs=signs)
    name = read_name(args[0], schema, names, text)
    bins_of(schema[name])  # refuses attributes without numbers
    at = 0.6 if kind == POVERTY else 0.5
    if wanted == 2:
        value = args[1].value if isinstance(args[1], ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise InputError(f"'{text}': the share of {kind} must be a number between 0 and 1.")
        at = float(value)
    if kind in ("gini", POVERTY) and bins_of(schema[name]).low[0] < 0:
        said = "the Gini coefficient" if kind == "gini" else "a poverty rate"
        raise UnsupportedError(f"'{text}': {said} needs values of at least 0, and '{name}' may be negative.")
    return Atom(kind="quantile" if kind == "median" else kind, text=text, names=(name,), at=at)


def _derived_total(node: ast.expr, schema: Schema, names: Mapping[str, str]) -> Derived | None:
    """The derived sum or difference of numbers that a name means, if it means one."""
    name = names.get(node.id, node.id) if isinstance(node, ast.Name) else ""
    return next((one for one in schema.derived if one.name == name and one.function in ("sum", "difference")), None)


def _table(kind: str, args: list[ast.expr], schema: Schema, names: Mapping[str, str], text: str) -> Atom:
    found = tuple(read_name(arg, schema, names, text) for arg in args)
    two = kind in ("association", "correlation")
    if len(set(found)) != len(found) or not found or (two and len(found) != 2):
        raise InputError(f"'{text}': {kind}() takes {'two' if two else 'some'} different attributes.")
    for name in found if kind == "correlation" else ():
        bins_of(schema[name])  # refuses attributes without numbers
    return Atom(kind=kind, text=text, names=found)


def _regression(text: str, schema: Schema, family: str | None, event: Level | None) -> Atom:
    formula = parse_formula(text, schema.names)
    outcome = schema[formula.outcome.name]
    if formula.level is not None:
        if event is not None and level_text(event) != formula.level:
            raise InputError(f"'{text}' names the event '{formula.level}' and event={event!r} another.")
        event = formula.level
    if family is None:
        family = "logit" if event is not None or (outcome.bins == 2 and outcome.levels) else None
        if family is None:
            categories = outcome.levels or formula.outcome.function == "C"
            family = "linear" if not categories else "ordered" if outcome.ordered else "multinomial"
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    # Levels that are numbers are an outcome of numbers only where a family of numbers is named.
    in_numbers = family in ("linear", "poisson") and level_numbers(outcome) is not None
    numeric = (in_numbers or not outcome.levels) and formula.outcome.function != "C"
    if formula.outcome.function == "bs" or (formula.outcome.detail and not numeric):
        raise InputError(f"'{text}': {formula.outcome} is no outcome.")
    if family in ("linear", "poisson") and not numeric:
        raise UnsupportedError(f"family '{family}' needs a numeric outcome, and {formula.outcome} has levels.")
    if family == "ordered" and not formula.intercept:
        raise InputError(f"'{text}': family 'ordered' has cut points and no intercept; leave out - 1.")
    if family == "poisson" and bins_of(outcome).low[0] < 0:
        raise UnsupportedError(
            f"family 'poisson' needs an outcome of at least 0, and '{outcome.name}' may be negative."
        )
    if family in ("multinomial", "ordered") and event is not None:
        raise InputError(f"family '{family}' models every level; leave event out.")
    if family == "ordered" and outcome.levels and not outcome.ordered:
        raise UnsupportedError(f"family 'ordered' needs levels with an order, and those of '{outcome.name}' have none.")
    if family == "ordered" and outcome.special and not numeric:
        raise UnsupportedError(
            f"family 'ordered' needs an order, and the special codes of '{outcome.name}' have none; leave out C()."
        )
    code = _event(outcome.name, event, schema) if family in OF_EVENTS else None
    if event is not None and code is None:
        raise InputError(f"family '{family}' has no event; leave it out.")
    return Atom(kind=family, text=text, formula=formula, event=code)


def _event(name: str, event: Level | None, schema: Schema) -> int:
    outcome = schema[name]
    known = [text for code, text in enumerate(outcome.code_names) if code != outcome.missing_code]
    if event is None:
        if outcome.bins != 2 or outcome.special:
            raise InputError(f"say which of the values of '{name}' is the event, for example event={known[0]!r}.")
        return 1
    wanted = level_text(event)
    if wanted not in known:
        raise unknown_name(f"event: level of '{name}'", wanted, known)
    return known.index(wanted)
