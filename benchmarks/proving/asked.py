"""Questions in the whole grammar, drawn from a seed, with their true answers in a population of real values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from populations import Population

from understudy.inference.regression import Model

MOST_CELLS = 3000  # of the attributes of one regression: larger ones are refused for their size
Flags = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it is put to ``infer``, and what is true for some people (by their row numbers)."""

    kind: str
    text: str
    true: Callable[[np.ndarray | None], np.ndarray]  # None: everybody
    options: dict[str, str] = field(default_factory=dict)
    of_records: bool = False  # a number of people is the records', not the population's
    parts: tuple[Callable[[np.ndarray | None], np.ndarray], ...] = ()  # what a difference is between


def draw_questions(rng: np.random.Generator, people: Population, count: int, only: Sequence[str] = ()) -> list[Asked]:
    """Some questions about a population, of different kinds; with ``only``, of kinds that begin so."""
    if only:
        drawn = [one for _ in range(count) for one in draw_questions(rng, people, 10 * count)]
        return [one for one in drawn if one.kind.startswith(tuple(only))][:count]
    makers = [_proportion, _proportion, _subgroup, _subgroup, _count, _difference, _difference, _mean, _quantile]
    makers += [_crosstab, _crosstab, _association, _logit, _logit, _logit, _linear, _poisson, _multinomial, _ordered]
    makers += [_spread, _spread, _ratio, _by, _percent, _correlation, _probit]
    found: list[Asked] = []
    for place in rng.permutation(len(makers)):
        made = makers[place](rng, people)
        if made is not None:
            found.append(made)
        if len(found) == count:
            break
    return found


def draw_more(rng: np.random.Generator, people: Population, count: int, only: Sequence[str] = ()) -> list[Asked]:
    """Questions about numbers, beside those of ``draw_questions``: they have their own random numbers, so that a seed
    still asks what it asked before they were thought of."""
    makers = [_spread, _spread, _spread, _correlation, _quantile_ratio, _mean_difference, _mean_by]
    places = rng.permutation(len(makers))
    made = [makers[place](rng, people) for place in places]
    wanted = [one for one in made if one is not None][:count]
    bounds = (_at_an_edge(rng, people), _one_value(rng, people), _inside_bins(rng, people))
    return [one for one in (*wanted, *bounds) if one.kind.startswith(tuple(only) or "")]


def _names(people: Population, *, numeric: bool | None = None, least: int = 0) -> list[str]:
    return [
        one.name
        for one in people.schema.attributes
        if (numeric is None or people.numeric(one.name) == numeric) and one.bins >= least
    ]


def _some(rng: np.random.Generator, names: Sequence[str], count: int, without: Sequence[str] = ()) -> list[str]:
    left = [name for name in names if name not in without]
    return [str(one) for one in rng.choice(left, min(count, len(left)), replace=False)]


def _condition(rng: np.random.Generator, people: Population, name: str) -> tuple[str, Flags]:
    """A condition on an attribute as text, and who meets it."""
    attribute, column = people.schema[name], people.columns[name]
    if attribute.levels:
        code = int(rng.integers(len(attribute.levels)))
        return f"{name} == '{attribute.levels[code]}'", column == code
    edges = [float(edge) for edge in attribute.edges]
    at = edges[int(rng.integers(1, len(edges) - 1))] if len(edges) > 2 else edges[0]
    shown = int(at) if attribute.integer else at
    return (f"{name} < {shown}", column < at) if rng.random() < 0.5 else (f"{name} >= {shown}", column >= at)


def _known(people: Population, names: Sequence[str]) -> Flags:
    """Who has a value in every attribute."""
    known = np.ones(people.size, bool)
    for name in names:
        known &= ~people.missing(name)
    return known


def _share(of: Flags, among: Flags) -> Callable[[np.ndarray | None], np.ndarray]:
    def true(rows: np.ndarray | None) -> np.ndarray:
        inside = among if rows is None else among[rows]
        both = (of & among) if rows is None else (of & among)[rows]
        return np.array([both.sum() / max(inside.sum(), 1)])

    return true


def _proportion(rng: np.random.Generator, people: Population) -> Asked:
    (name,) = _some(rng, _names(people), 1)
    text, of = _condition(rng, people, name)
    return Asked(kind="proportion", text=f"proportion({text})", true=_share(of, _known(people, [name])))


def _subgroup(rng: np.random.Generator, people: Population) -> Asked:
    names = _some(rng, _names(people), int(rng.choice([2, 2, 3])))
    text, of = _condition(rng, people, names[0])
    where = [_condition(rng, people, name) for name in names[1:]]
    among = _known(people, names) & np.logical_and.reduce([flags for _, flags in where])
    kind = "proportion, 2 attributes" if len(names) == 2 else "proportion, 3 attributes"
    return Asked(
        kind=kind, text=f"proportion({text}, where={' and '.join(one for one, _ in where)})", true=_share(of, among)
    )


def _count(rng: np.random.Generator, people: Population) -> Asked:
    names = _some(rng, _names(people), int(rng.choice([1, 2])))
    parts = [_condition(rng, people, name) for name in names]
    of = _known(people, names) & np.logical_and.reduce([flags for _, flags in parts])

    def true(rows: np.ndarray | None) -> np.ndarray:
        return np.array([float((of if rows is None else of[rows]).sum())])

    return Asked(kind="count", text=f"count({' and '.join(t for t, _ in parts)})", true=true, of_records=True)


def _difference(rng: np.random.Generator, people: Population) -> Asked | None:
    levels = _names(people, numeric=False)
    if not levels:
        return None
    (group,) = _some(rng, levels, 1)
    (name,) = _some(rng, _names(people), 1, [group])
    text, of = _condition(rng, people, name)
    first, second = (int(one) for one in rng.choice(len(people.schema[group].levels), 2, replace=False))
    known = _known(people, [group, name])
    labels = people.schema[group].levels
    one, two = (_share(of, known & (people.columns[group] == code)) for code in (first, second))
    asked = [f"proportion({text}, where={group} == '{labels[code]}')" for code in (first, second)]
    return Asked(kind="difference", text=" - ".join(asked), true=lambda rows: one(rows) - two(rows), parts=(one, two))


def _number(rng: np.random.Generator, people: Population) -> tuple[str, Flags, str] | None:
    numbers = _names(people, numeric=True)
    if not numbers:
        return None
    (name,) = _some(rng, numbers, 1)
    among, where = _known(people, [name]), ""
    levels = _names(people, numeric=False)
    if levels and rng.random() < 0.4:
        (group,) = _some(rng, levels, 1)
        text, flags = _condition(rng, people, group)
        among, where = among & flags & _known(people, [group]), f", where={text}"
    return name, among, where


def _mean(rng: np.random.Generator, people: Population) -> Asked | None:
    found = _number(rng, people)
    if found is None:
        return None
    name, among, where = found
    column = people.columns[name]

    def true(rows: np.ndarray | None) -> np.ndarray:
        return np.array([column[among].mean() if rows is None else column[rows][among[rows]].mean()])

    return Asked(kind="mean", text=f"mean({name}{where})", true=true)


def _quantile(rng: np.random.Generator, people: Population) -> Asked | None:
    found = _number(rng, people)
    if found is None:
        return None
    name, among, where = found
    column, at = people.columns[name], float(rng.choice([0.1, 0.5, 0.5, 0.9, 0.95]))

    def true(rows: np.ndarray | None) -> np.ndarray:
        values = column[among] if rows is None else column[rows][among[rows]]
        return np.array([np.quantile(values, at, method="inverted_cdf")])

    return Asked(kind="quantile", text=f"quantile({name}, {at}{where})", true=true)


def _quantile_ratio(rng: np.random.Generator, people: Population) -> Asked | None:
    """A ratio of two quantiles of a number, such as that of the upper to the lower tenth."""
    found = _number(rng, people)
    if found is None or float(people.schema[found[0]].edges[0]) < 0:
        return None
    name, among, where = found
    column = people.columns[name]
    high, low = [(0.9, 0.1), (0.8, 0.2), (0.75, 0.25), (0.9, 0.5)][int(rng.integers(4))]

    def true(rows: np.ndarray | None) -> np.ndarray:
        values = column[among] if rows is None else column[rows][among[rows]]
        one, two = (np.quantile(values, at, method="inverted_cdf") for at in (high, low))
        return np.array([one / two if two > 0 else np.inf])

    text = f"quantile({name}, {high}{where}) / quantile({name}, {low}{where})"
    return Asked(kind="ratio of quantiles", text=text, true=true)


def _means(rng: np.random.Generator, people: Population) -> tuple[str, str, list[Callable]] | None:
    """A number, an attribute that people are grouped by, and the mean in each of its groups."""
    numbers, levels = _names(people, numeric=True), _names(people, numeric=False)
    if not numbers or not levels:
        return None
    (name,), (group,) = _some(rng, numbers, 1), _some(rng, levels, 1)
    known, column = _known(people, [name, group]), people.columns[name]

    def mean(code: int) -> Callable[[np.ndarray | None], np.ndarray]:
        among = known & (people.columns[group] == code)

        def true(rows: np.ndarray | None) -> np.ndarray:
            values = column[among] if rows is None else column[rows][among[rows]]
            return np.array([values.mean() if len(values) else np.nan])

        return true

    return name, group, [mean(code) for code in range(len(people.schema[group].levels))]


def _mean_difference(rng: np.random.Generator, people: Population) -> Asked | None:
    found = _means(rng, people)
    if found is None:
        return None
    name, group, means = found
    first, second = (int(one) for one in rng.choice(len(means), 2, replace=False))
    levels = people.schema[group].levels
    text = " - ".join(f"mean({name}, where={group} == '{levels[code]}')" for code in (first, second))
    return Asked(kind="difference of means", text=text, true=lambda rows: means[first](rows) - means[second](rows))


def _at_an_edge(rng: np.random.Generator, people: Population) -> Asked:
    """A share up to and including an edge, or beyond it: many may have exactly that number, such as 0."""
    numbers = _names(people, numeric=True)
    if not numbers:
        return _proportion(rng, people)
    (name,) = _some(rng, numbers, 1)
    attribute, column = people.schema[name], people.columns[name]
    edge = float(rng.choice([float(one) for one in attribute.edges]))
    symbol = str(rng.choice(["<", "<=", ">", ">="]))
    of = {"<": column < edge, "<=": column <= edge, ">": column > edge, ">=": column >= edge}[symbol]
    shown = int(edge) if attribute.integer else edge
    text = f"proportion({name} {symbol} {shown})"
    return Asked(kind="proportion at an edge", text=text, true=_share(of, _known(people, [name])))


def _value(rng: np.random.Generator, people: Population, name: str) -> float:
    """A number that somebody has, which seldom is an edge."""
    column = people.columns[name]
    return float(rng.choice(column[~np.isnan(column)]))


def _one_value(rng: np.random.Generator, people: Population) -> Asked:
    """A share of people who have exactly one value."""
    numbers = _names(people, numeric=True)
    if not numbers:
        return _proportion(rng, people)
    (name,) = _some(rng, numbers, 1)
    value = _value(rng, people, name)
    shown = int(value) if people.schema[name].integer else value
    of = people.columns[name] == value
    symbol = str(rng.choice(["==", "!="]))
    true = _share(of if symbol == "==" else ~of, _known(people, [name]))
    return Asked(kind="proportion of one value", text=f"proportion({name} {symbol} {shown})", true=true)


def _inside_bins(rng: np.random.Generator, people: Population) -> Asked:
    """A share, a number of people or a difference of shares of a subgroup whose bound may lie inside a bin."""
    numbers = _names(people, numeric=True)
    if not numbers:
        return _subgroup(rng, people)
    (name,) = _some(rng, numbers, 1)
    value = _value(rng, people, name)
    shown = int(value) if people.schema[name].integer else value
    inside = people.columns[name] < value
    (other,) = _some(rng, _names(people), 1, [name])
    text, of = _condition(rng, people, other)
    known = _known(people, [name, other])
    kind, below = str(rng.choice(["share", "count", "difference"])), f"proportion({text}, where={name} < {shown})"
    if kind == "share":
        return Asked(kind="subgroup inside bins", text=below, true=_share(of, known & inside))
    if kind == "count":
        both = of & known & inside

        def true(rows: np.ndarray | None) -> np.ndarray:
            return np.array([float((both if rows is None else both[rows]).sum())])

        return Asked(
            kind="subgroup inside bins", text=f"count({text}, where={name} < {shown})", true=true, of_records=True
        )
    one, two = _share(of, known & inside), _share(of, known & ~inside)
    return Asked(
        kind="subgroup inside bins",
        text=f"{below} - proportion({text}, where={name} >= {shown})",
        true=lambda rows: one(rows) - two(rows),
    )


def _mean_by(rng: np.random.Generator, people: Population) -> Asked | None:
    found = _means(rng, people)
    if found is None:
        return None
    name, group, means = found
    return Asked(
        kind="mean by groups",
        text=f"mean({name}, by={group})",
        true=lambda rows: np.concatenate([one(rows) for one in means]),
    )


def _gini(values: np.ndarray) -> float:
    ordered = np.sort(values)
    places = np.arange(1, len(ordered) + 1)
    return float(((2 * places - len(ordered) - 1) * ordered).sum() / (len(ordered) * max(ordered.sum(), 1e-300)))


def _spread(rng: np.random.Generator, people: Population) -> Asked | None:
    """A total, a spread or an inequality of a number."""
    found = _number(rng, people)
    if found is None:
        return None
    name, among, where = found
    column = people.columns[name]
    kinds = {"sum": np.sum, "std": np.std, "variance": np.var, "gini": _gini}
    kind = str(rng.choice([one for one in kinds if one != "gini" or float(people.schema[name].edges[0]) >= 0]))

    def true(rows: np.ndarray | None) -> np.ndarray:
        values = column[among] if rows is None else column[rows][among[rows]]
        return np.array([float(kinds[kind](values))])

    return Asked(kind=kind, text=f"{kind}({name}{where})", true=true, of_records=kind == "sum")


def _ratio(rng: np.random.Generator, people: Population) -> Asked | None:
    """A relative risk: the ratio of a share in two groups."""
    asked = _difference(rng, people)
    if asked is None:
        return None
    parts = asked.text.split(" - ")
    if len(parts) != 2:
        return None
    return Asked(kind="ratio", text=" / ".join(parts), true=lambda rows: asked.parts[0](rows) / asked.parts[1](rows))


def _by(rng: np.random.Generator, people: Population) -> Asked | None:
    """A share in every group of an attribute."""
    levels = _names(people, numeric=False)
    if not levels:
        return None
    (group,) = _some(rng, levels, 1)
    (name,) = _some(rng, _names(people), 1, [group])
    text, of = _condition(rng, people, name)
    known = _known(people, [group, name])
    shares = [_share(of, known & (people.columns[group] == code)) for code in range(len(people.schema[group].levels))]
    return Asked(
        kind="proportion by groups",
        text=f"proportion({text}, by={group})",
        true=lambda rows: np.concatenate([one(rows) for one in shares]),
    )


def _correlation(rng: np.random.Generator, people: Population) -> Asked | None:
    numbers = _names(people, numeric=True, least=2)
    if len(numbers) < 2:
        return None
    first, second = _some(rng, numbers, 2)
    known = _known(people, [first, second])

    def true(rows: np.ndarray | None) -> np.ndarray:
        used = np.flatnonzero(known) if rows is None else rows[known[rows]]
        return np.array([np.corrcoef(people.columns[first][used], people.columns[second][used])[0, 1]])

    return Asked(kind="correlation", text=f"correlation({first}, {second})", true=true)


def _probit(rng: np.random.Generator, people: Population) -> Asked | None:
    asked = _logit(rng, people)
    if asked is None or "crossed" in asked.kind:
        return None
    outcome, _, right = asked.text.partition(" ~ ")
    code = [str(level) for level in people.schema[outcome].levels].index(asked.options["event"])
    true = _regression(people, "probit", outcome, right.split(" + "), code=code)
    return Asked(kind="probit", text=asked.text, true=true, options={**asked.options, "family": "probit"})


def codes_of(people: Population, name: str) -> tuple[np.ndarray, int]:
    """The level or bin of everybody (-1 where missing), and how many there are."""
    attribute, column = people.schema[name], people.columns[name]
    if attribute.levels:
        return column, len(attribute.levels)
    edges = np.array([float(edge) for edge in attribute.edges])
    inside = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, attribute.bins - 1)
    return np.where(np.isnan(column), -1, inside), attribute.bins


def _table(people: Population, names: Sequence[str]) -> Callable[[np.ndarray | None], np.ndarray]:
    """The shares of a table of those with a value in all its attributes."""
    coded = [codes_of(people, name) for name in names]
    shape = tuple(size for _, size in coded)
    known = _known(people, names)
    flat = np.ravel_multi_index([np.maximum(codes, 0) for codes, _ in coded], shape)

    def true(rows: np.ndarray | None) -> np.ndarray:
        cells = flat[known] if rows is None else flat[rows][known[rows]]
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        return (counts / max(counts.sum(), 1)).reshape(shape)

    return true


def _crosstab(rng: np.random.Generator, people: Population) -> Asked:
    names = _some(rng, _names(people), int(rng.choice([1, 2, 2, 3])))
    shares = _table(people, names)
    kind = "crosstab" if len(names) < 3 else "crosstab, 3 attributes"
    return Asked(kind=kind, text=f"crosstab({', '.join(names)})", true=lambda rows: shares(rows).ravel())


def _percent(rng: np.random.Generator, people: Population) -> Asked | None:
    """Percentages by row or by column of a table of two attributes."""
    names = _some(rng, _names(people), 2)
    if len(names) < 2:
        return None
    shares, within = _table(people, names), str(rng.choice(["row", "column"]))

    def true(rows: np.ndarray | None) -> np.ndarray:
        found = shares(rows)
        return (found / found.sum(axis=-1 if within == "row" else 0, keepdims=True)).ravel()

    text = f"crosstab({', '.join(names)}, percent='{within}')"
    return Asked(kind=f"crosstab, {within} percent", text=text, true=true)


def _association(rng: np.random.Generator, people: Population) -> Asked | None:
    names = _some(rng, _names(people, least=2), 2)
    if len(names) < 2:
        return None
    shares = _table(people, names)

    def true(rows: np.ndarray | None) -> np.ndarray:
        table = shares(rows)
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            chi = np.nansum((table - expected) ** 2 / expected)
            values = [np.sqrt(chi / (min(table.shape) - 1))]
            if table.shape == (2, 2):
                values.append(np.log(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])))
        return np.array(values)

    return Asked(kind="association", text=f"association({', '.join(names)})", true=true)


def _design(people: Population, terms: Sequence[str], crossed: bool) -> list[np.ndarray]:
    """The columns of a formula for everybody: numbers by their values, levels but the first as 0 or 1."""
    blocks = []
    for name in terms:
        column = people.columns[name]
        if people.numeric(name):
            blocks.append([np.nan_to_num(column)])
        else:
            blocks.append([(column == code).astype(float) for code in range(1, len(people.schema[name].levels))])
    columns = [one for block in blocks for one in block]
    if crossed:
        columns += [first * second for first in blocks[0] for second in blocks[1]]
    return columns


def _patterns(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Where each different row of some columns is first, and how often it occurs."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + place, return_inverse=True)[1]
    return np.unique(code, return_index=True, return_counts=True)[1:]


def _regression(
    people: Population,
    family: str,
    outcome: str,
    terms: Sequence[str],
    *,
    code: int | None = None,
    crossed: bool = False,
) -> Callable[[np.ndarray | None], np.ndarray]:
    known = _known(people, [outcome, *terms])
    columns = _design(people, terms, crossed)
    if family != "ordered":
        columns = [np.ones(people.size), *columns]
    design = np.stack(columns, axis=1)
    answer = people.columns[outcome] if code is None else (people.columns[outcome] == code).astype(float)
    levels = tuple(str(one) for one in people.schema[outcome].levels) if family in ("multinomial", "ordered") else ()

    def true(rows: np.ndarray | None) -> np.ndarray:
        used = np.flatnonzero(known) if rows is None else rows[known[rows]]
        first, counts = _patterns([*design[used].T, answer[used]])
        x, y = design[used][first], answer[used][first].astype(float)
        labels = tuple(f"x{place}" for place in range(x.shape[1]))
        names = labels
        if family == "multinomial":
            names = tuple(f"{level}{label}" for level in levels[1:] for label in labels)
        elif family == "ordered":
            names = (*labels, *levels[1:])
        if levels:
            y = y.astype(np.int64)
        model = Model(family=family, names=names, design=x, outcome=y, columns=labels, levels=levels)
        return model.fit(counts[None].astype(float))[0]

    return true


def _terms(rng: np.random.Generator, people: Population, outcome: str, *, numeric: bool | None = None) -> list[str]:
    """Regressors of an outcome, as many as a table of at most ``MOST_CELLS`` cells has room for."""
    found: list[str] = []
    cells = people.schema[outcome].size
    for name in _some(rng, _names(people, numeric=numeric), int(rng.choice([1, 1, 2, 2, 3])), [outcome]):
        cells *= people.schema[name].size
        if cells <= MOST_CELLS:
            found.append(name)
    return found


def _logit(rng: np.random.Generator, people: Population) -> Asked | None:
    levels = _names(people, numeric=False)
    if not levels:
        return None
    (outcome,) = _some(rng, levels, 1)
    terms = _terms(rng, people, outcome)
    if not terms:
        return None
    code = int(rng.integers(len(people.schema[outcome].levels)))
    crossed = len(terms) == 2 and rng.random() < 0.25
    numbers = any(people.numeric(name) for name in terms)
    kind = f"logit, {len(terms)} terms" + (", crossed" if crossed else "") + (", numbers" if numbers else "")
    event = str(people.schema[outcome].levels[code])
    text = f"{outcome} ~ {(' * ' if crossed else ' + ').join(terms)}"
    true = _regression(people, "logit", outcome, terms, code=code, crossed=crossed)
    return Asked(kind=kind, text=text, true=true, options={"event": event, "family": "logit"})


def _numeric_outcome(rng: np.random.Generator, people: Population, family: str) -> Asked | None:
    numbers = _names(people, numeric=True)
    if not numbers:
        return None
    (outcome,) = _some(rng, numbers, 1)
    terms = _terms(rng, people, outcome)
    if not terms or (family == "poisson" and float(people.schema[outcome].edges[0]) < 0):
        return None
    true = _regression(people, family, outcome, terms)
    return Asked(kind=family, text=f"{outcome} ~ {' + '.join(terms)}", true=true, options={"family": family})


def _linear(rng: np.random.Generator, people: Population) -> Asked | None:
    return _numeric_outcome(rng, people, "linear")


def _poisson(rng: np.random.Generator, people: Population) -> Asked | None:
    return _numeric_outcome(rng, people, "poisson")


def _levels(rng: np.random.Generator, people: Population, family: str) -> Asked | None:
    ordered = family == "ordered"
    names = [one for one in _names(people, numeric=False, least=3) if people.schema[one].ordered == ordered]
    if not names:
        return None
    (outcome,) = _some(rng, names, 1)
    terms = _terms(rng, people, outcome, numeric=False)[:2]
    if not terms:
        return None
    true = _regression(people, family, outcome, terms)
    return Asked(kind=family, text=f"{outcome} ~ {' + '.join(terms)}", true=true, options={"family": family})


def _multinomial(rng: np.random.Generator, people: Population) -> Asked | None:
    return _levels(rng, people, "multinomial")


def _ordered(rng: np.random.Generator, people: Population) -> Asked | None:
    return _levels(rng, people, "ordered")
