"""A generated population whose true relations are known: for the demonstration, and for tests of coverage.

Nobody in it exists. People live in regions, age, study, work, marry, fall ill and smoke; some questions are left
unanswered, and some combinations cannot occur (a child has no spouse and no wage). The laws that made the population
are stated as data in :data:`TRUTH`, so that an interval computed from a synthetic release can be checked against the
truth and not merely against the one table the release was made from.

The relations are laws of the population, not of the one table drawn from it: a table of ``rows`` people differs from
them by ordinary sampling error.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.schema import MISSING, Attribute, Schema
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa


SURVEY_DAY = datetime.date(2026, 1, 1)
REGIONS = ("Capital", "Coast", "East", "Highlands", "Islands", "Lakes", "North", "West")
SEXES = ("F", "M")
EDUCATION = ("primary or less", "secondary", "vocational", "tertiary")
EMPLOYMENT = ("employee", "self-employed", "unemployed", "in education", "retired", "not in labour force")
WORKING = EMPLOYMENT[:2]
MARITAL = ("single", "married", "widowed", "divorced")
HEALTH = ("very bad", "bad", "fair", "good", "very good")
SMOKES = ("no", "yes")
NOT_APPLICABLE = -8
HIGHEST_INCOME = 1_000_000
AGE_EDGES = (0, 5, 15, 20, 25, 35, 45, 55, 65, 75, 85, 101)
AGE_GROUPS = {"15-24": (15, 25), "25-44": (25, 45), "45-64": (45, 65), "65+": (65, 101)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A law that made the population: the model, on whom it holds, and its coefficients.

    Reference categories are left out (their coefficient is 0). Answers are missing completely at random inside
    ``where``, so an analysis of the complete cases is consistent for these values.
    """

    family: Literal["logit", "log-normal", "ordered logit", "share"]
    response: str
    event: str = ""
    where: str
    coefficients: Mapping[str, float] = field(hash=False)


TRUTH: Mapping[str, Relation] = MappingProxyType(
    {
        "region": Relation(
            family="share",
            response="region",
            where="everybody",
            coefficients=dict(zip(REGIONS, (0.22, 0.14, 0.16, 0.07, 0.04, 0.09, 0.12, 0.16), strict=True)),
        ),
        "sex": Relation(family="share", response="sex", where="everybody", coefficients={"F": 0.51, "M": 0.49}),
        "smokes": Relation(
            family="logit",
            response="smokes",
            event="yes",
            where="age >= 15",
            coefficients={
                "intercept": -0.9,
                "age=25-44": 0.3,
                "age=45-64": 0.1,
                "age=65+": -0.7,
                "sex=M": 0.45,
                "education=secondary": -0.2,
                "education=vocational": 0.15,
                "education=tertiary": -0.8,
            },
        ),
        "income": Relation(
            family="log-normal",
            response="income",
            where="employment is employee or self-employed",
            coefficients={
                "intercept": 9.85,
                "education=secondary": 0.2,
                "education=vocational": 0.3,
                "education=tertiary": 0.65,
                "sex=M": 0.15,
                "sigma": 0.5,
            },
        ),
        "health": Relation(  # log odds of being in a level or a worse one = threshold + slope * age / 10
            family="ordered logit",
            response="health",
            where="everybody",
            coefficients={
                "threshold=very bad": -6.0,
                "threshold=bad": -4.5,
                "threshold=fair": -2.8,
                "threshold=good": -0.9,
                "age/10": 0.4,
            },
        ),
    }
)

# For each question, the share of those asked who leave it unanswered, completely at random.
UNANSWERED: Mapping[str, float] = MappingProxyType({"income": 0.08, "health": 0.03, "smokes": 0.05})


def true_value(name: str) -> float:
    """One true coefficient, named ``relation/coefficient``.

    >>> true_value("smokes/sex=M")
    0.45
    """
    relation, _, coefficient = name.partition("/")
    if relation not in TRUTH:
        raise unknown_name("relation", relation, TRUTH)
    known = TRUTH[relation].coefficients
    if coefficient not in known:
        raise unknown_name(f"coefficient of {relation}:", coefficient, known)
    return known[coefficient]


def people_schema() -> Schema:
    """Everything public about the population: ten mixed attributes and what cannot occur.

    >>> people_schema().cells() > 10**7, small_schema().cells()
    (True, 2112)
    """
    return Schema(
        attributes=(
            Attribute(name="region", levels=REGIONS, label="Region of residence"),
            Attribute(name="sex", levels=SEXES, label="Sex at registration"),
            Attribute(name="age", edges=AGE_EDGES, integer=True, label="Age in completed years"),
            Attribute(name="marital", levels=MARITAL, label="Marital status"),
            Attribute(name="education", levels=EDUCATION, ordered=True, label="Highest completed education"),
            Attribute(name="employment", levels=EMPLOYMENT, label="Main activity"),
            Attribute(
                name="income",
                edges=(0, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000, 90_000, 150_000, HIGHEST_INCOME),
                integer=True,
                missing=True,
                special=((NOT_APPLICABLE, "not applicable"),),
                label="Yearly income from work",
            ),
            Attribute(name="health", levels=HEALTH, ordered=True, missing=True, label="Self-rated health"),
            Attribute(name="smokes", levels=SMOKES, missing=True, label="Smokes daily (asked from age 15)"),
            Attribute(
                name="registered",
                edges=tuple(datetime.date(year, 1, 1) for year in (1990, 1996, 2001, 2006, 2011, 2016, 2021, 2026)),
                label="Day of registration at the present address",
            ),
        ),
        impossible=(
            _rule(age=Condition(below=15), marital=Condition(levels=MARITAL[1:])),
            _rule(age=Condition(below=15), employment=Condition(levels=(*EMPLOYMENT[:3], "retired"))),
            _rule(age=Condition(below=45), employment=Condition(levels=("retired",))),
            _rule(age=Condition(below=15), education=Condition(levels=EDUCATION[1:])),
            _rule(age=Condition(below=20), education=Condition(levels=("tertiary",))),
            _rule(age=Condition(below=15), smokes=Condition(levels=SMOKES)),
            _rule(employment=Condition(levels=WORKING), income=Condition(levels=("not applicable",))),
            _rule(employment=Condition(levels=EMPLOYMENT[2:]), income=Condition(levels=(MISSING,), above=0)),
            _rule(age=Condition(below=5), registered=Condition(below=datetime.date(2021, 1, 1))),
            _rule(age=Condition(below=15), registered=Condition(below=datetime.date(2011, 1, 1))),
        ),
        ignore=("person_id",),
    )


def small_schema() -> Schema:
    """Five of the attributes, few enough to cross in full: enough to study who smokes."""
    whole = people_schema()
    kept = ("region", "sex", "age", "education", "smokes")
    return Schema(
        attributes=tuple(whole[name] for name in kept),
        impossible=tuple(rule for rule in whole.impossible if set(rule.attributes) <= set(kept)),
        ignore=(*whole.ignore, *(name for name in whole.names if name not in kept)),
    )


def schema_text() -> str:
    """The schema of the whole population as a TOML file."""
    from understudy.core.schema_file import write_schema

    return write_schema(people_schema())


def make_people(rows: int = 100_000, seed: int = 2026) -> pa.Table:
    """Draw a table of people from the laws in :data:`TRUTH`; the same arguments give the same table."""
    import pyarrow as pa

    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise InputError(f"rows ({rows}) must be a whole number of at least 0.")
    rng = np.random.default_rng(seed)
    region = rng.choice(len(REGIONS), size=rows, p=list(TRUTH["region"].coefficients.values()))
    sex = (rng.random(rows) < true_value("sex/M")).astype(np.int64)
    age = _ages(rng, sex)
    education = _education(rng, age, region)
    marital = _marital(rng, age, sex)
    employment = _employment(rng, age, sex, education)
    works = employment < len(WORKING)
    income = np.where(works, _income(rng, education, sex), NOT_APPLICABLE)
    health = _health(rng, age)
    smokes = (rng.random(rows) < _logistic(_smoking_score(age, sex, education))).astype(np.int64)
    unanswered = {name: rng.random(rows) < share for name, share in UNANSWERED.items()}
    return pa.table(
        {
            "person_id": pa.array([f"P{number:07d}" for number in range(1, rows + 1)], pa.string()),
            "region": _text(REGIONS, region),
            "sex": _text(SEXES, sex),
            "age": pa.array(age),
            "marital": _text(MARITAL, marital),
            "education": _text(EDUCATION, education),
            "employment": _text(EMPLOYMENT, employment),
            "income": pa.array(income, mask=unanswered["income"] & works),
            "health": _text(HEALTH, health, unanswered["health"]),
            "smokes": _text(SMOKES, smokes, unanswered["smokes"] | (age < 15)),
            "registered": pa.array(_registered(rng, age)),
        }
    )


def write_people(
    folder: str | Path, rows: int = 100_000, seed: int = 2026, *, form: Literal["parquet", "csv"] = "parquet"
) -> tuple[Path, Path]:
    """Write ``people.parquet`` (or ``people.csv``) and ``people.toml``; gives the two paths back."""
    if form not in ("parquet", "csv"):
        raise unknown_name("form", form, ("parquet", "csv"))
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table, data = make_people(rows, seed), target / f"people.{form}"
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, data)
    else:
        from understudy.release.csv_file import write_csv

        write_csv(table, data)
    schema = target / "people.toml"
    schema.write_text(schema_text(), encoding="utf-8")
    return data, schema


def age_group(age: Integers) -> Integers:
    """The group of :data:`AGE_GROUPS` each age falls into; -1 below 15."""
    starts = [low for low, _ in AGE_GROUPS.values()]
    return np.searchsorted(starts, age, side="right").astype(np.int64) - 1


def _rule(**conditions: Condition) -> Impossible:
    return Impossible(conditions=tuple(conditions.items()))


def _logistic(score: Floats) -> Floats:
    return 1 / (1 + np.exp(-score))


def _coefficients(relation: str, prefix: str, categories: tuple[str, ...]) -> Floats:
    """One coefficient per category, 0 for the reference that the relation leaves out."""
    known = TRUTH[relation].coefficients
    return np.array([known.get(f"{prefix}={category}", 0.0) for category in categories])


def _ages(rng: np.random.Generator, sex: Integers) -> Integers:
    """Even cohorts up to middle age, then a decline that is steeper for men."""
    ages = np.arange(101)
    drawn = np.empty(len(sex), dtype=np.int64)
    for code, (start, years) in enumerate(((62.0, 24.0), (58.0, 22.0))):
        weight = np.exp(-(np.clip((ages - start) / years, 0, None) ** 2) * 1.6)
        who = np.flatnonzero(sex == code)
        drawn[who] = rng.choice(ages, size=len(who), p=weight / weight.sum())
    return drawn


def _softmax_draw(rng: np.random.Generator, scores: Floats, possible: Flags) -> Integers:
    """One category per row with probability proportional to exp(score), impossible ones never."""
    weight = np.where(possible, np.exp(scores), 0.0)
    edges = np.cumsum(weight, axis=1)
    point = rng.random(len(scores)) * edges[:, -1]
    drawn: Integers = np.sum(point[:, None] >= edges, axis=1)
    return drawn


def _education(rng: np.random.Generator, age: Integers, region: Integers) -> Integers:
    decades = np.clip(age - 20, 0, None) / 10
    capital = region == REGIONS.index("Capital")
    scores = np.stack([0.3 * decades - 0.8, np.full(len(age), 0.6), 0.1 * decades, 0.4 - 0.2 * decades], axis=1)
    scores[:, 3] += 0.6 * capital
    scores[age < 20, 0] += 1.5  # most are still at school
    possible = np.ones_like(scores, dtype=bool)
    possible[age < 15, 1:] = False
    possible[age < 20, 3] = False
    return _softmax_draw(rng, scores, possible)


def _marital(rng: np.random.Generator, age: Integers, sex: Integers) -> Integers:
    years = age.astype(float)
    scores = np.stack(
        [
            1.5 - (years - 20) / 9 + np.clip(25 - years, 0, None) / 3,
            np.where(years < 70, 0.0, -(years - 70) / 20),
            (years - 78) / 8 - 0.9 * (sex == SEXES.index("M")),
            np.full(len(age), -1.6),
        ],
        axis=1,
    )
    possible = np.ones_like(scores, dtype=bool)
    possible[age < 15, 1:] = False
    return _softmax_draw(rng, scores, possible)


def _employment(rng: np.random.Generator, age: Integers, sex: Integers, education: Integers) -> Integers:
    years = age.astype(float)
    male = sex == SEXES.index("M")
    active = 2.4 - ((years - 42) / 14) ** 2 + 0.3 * education + 0.4 * male
    scores = np.stack(
        [
            active,
            active - 2.2 + 0.3 * male,
            np.full(len(age), -0.6) - 0.2 * education,
            np.where(years >= 5, 3.5 - np.clip(years - 17, 0, None) / 2, -8.0),
            (years - 62) / 2.5,
            np.full(len(age), 0.0),
        ],
        axis=1,
    )
    possible = np.ones_like(scores, dtype=bool)
    possible[age < 15, :3] = False
    possible[age < 45, 4] = False
    return _softmax_draw(rng, np.clip(scores, -12, 12), possible)


def _income(rng: np.random.Generator, education: Integers, sex: Integers) -> Integers:
    mean = (
        true_value("income/intercept")
        + _coefficients("income", "education", EDUCATION)[education]
        + _coefficients("income", "sex", SEXES)[sex]
    )
    drawn = np.exp(mean + true_value("income/sigma") * rng.standard_normal(len(sex)))
    return np.minimum(np.rint(drawn), HIGHEST_INCOME).astype(np.int64)


def _health(rng: np.random.Generator, age: Integers) -> Integers:
    thresholds = _coefficients("health", "threshold", HEALTH[:-1])
    worse = _logistic(thresholds + true_value("health/age/10") * age[:, None] / 10)
    level: Integers = np.sum(rng.random(len(age))[:, None] >= worse, axis=1)
    return level


def _smoking_score(age: Integers, sex: Integers, education: Integers) -> Floats:
    score: Floats = (
        true_value("smokes/intercept")
        + _coefficients("smokes", "age", tuple(AGE_GROUPS))[age_group(age)]
        + _coefficients("smokes", "sex", SEXES)[sex]
        + _coefficients("smokes", "education", EDUCATION)[education]
    )
    return score


def _registered(rng: np.random.Generator, age: Integers) -> NDArray[np.datetime64]:
    """A day between the later of birth and 1990, and the survey; recent moves are more common."""
    last = np.datetime64(SURVEY_DAY, "D")
    alive = np.floor(365.25 * (age + rng.random(len(age)))).astype(np.int64)
    longest = (last - np.datetime64(datetime.date(1990, 1, 1), "D")).astype(np.int64)
    back = np.floor(np.minimum(alive, longest) * rng.random(len(age)) ** 1.7).astype(np.int64)
    return last - np.maximum(back, 1).astype("timedelta64[D]")


def _text(names: tuple[str, ...], codes: Integers, missing: Flags | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(names, pa.string()).take(pa.array(codes, mask=missing))
