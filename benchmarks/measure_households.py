"""How well members of synthetic households belong together, beside the flattened alternatives. Run by hand.

    python benchmarks/measure_households.py compare --runs 3     # EU-SILC in ../shared/data (or UNDERSTUDY_DATA)
    python benchmarks/measure_households.py coverage --files 300 --to coverage.jsonl   # resumable, by seed
    python benchmarks/measure_households.py million

``compare``: total variation distance of tables of pairs of members, of tables of members and of households, for
``families`` and for two flattened alternatives with the same budget and unit: one wide row with a slot for each member
in the order of the file, by ``aim``; and members drawn independently of each other, by ``aim`` on the table of persons
with half of the budget and on the table of households with the other half.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.linked_schema import LinkedSchema
from understudy.core.linked_schema_file import parse_any_schema
from understudy.core.schema import Attribute, Schema
from understudy.core.slot_columns import NONE
from understudy.core.structural_zeros import Condition, Impossible
from understudy.core.table import CodedTable
from understudy.demo.families import FAMILIES_SCHEMA, make_families
from understudy.engines.reading.decode import decode
from understudy.engines.reading.encode import encode_table
from understudy.households.household_release import numbers, public_words
from understudy.households.linked_table import LinkedTable
from understudy.households.pair_tables import pair_tables, total_variation
from understudy.households.source import impossible_households, open_households, roles_by_rule

DELTA = "1e-6"
SHARED = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[2] / "shared" / "data"))
SCHEMA = Path(__file__).parents[1] / "docs" / "tutorials" / "eusilc.toml"


def scores(truth: LinkedTable, made: LinkedTable) -> dict[str, float]:
    """Mean total variation distances."""
    found = {}
    for kind in ("partners", "parent and child", "siblings"):
        theirs = dict(pair_tables(made, kind))
        found[kind] = float(np.mean([total_variation(one, theirs[names]) for names, one in pair_tables(truth, kind)]))
    names = truth.schema.members.names
    for way in (1, 2):
        found[f"members, {way}-way"] = float(np.mean([
            total_variation(truth.members.counts(one), made.members.counts(one)) for one in combinations(names, way)
        ]))  # fmt: skip
    own = truth.schema.households.names
    found["households, 1-way"] = float(np.mean([
        total_variation(truth.households.counts((one,)), made.households.counts((one,))) for one in own
    ]))  # fmt: skip
    sizes = [np.bincount(one.by_role.sum(axis=1), minlength=truth.schema.at_most + 1) for one in (truth, made)]
    found["size"] = total_variation(*sizes)
    found["composition"] = total_variation(*(
        np.bincount(one.compositions[one.compositions >= 0], minlength=len(truth.schema.kinds)) for one in (truth, made)
    ))  # fmt: skip
    return found


def families(source: Any, budget: us.ApproxDP, unit: str, choose: str) -> LinkedTable:
    release: Any = us.synthesize(source, budget=budget, unit=unit, choose=choose)
    return release.linked()


def linked_by_rule(schema: LinkedSchema, own: dict[str, Any], members: dict[str, Any], owner: Any) -> LinkedTable:
    """Households of a flattened alternative; roles by the rule, from ages drawn inside their bins."""
    table = CodedTable(schema=schema.members.without_rules, columns=members)
    stream = public_words()
    age = numbers(schema.members["age"], decode(table, stream, "ages")["age"], members["age"])
    roles = schema.roles
    assert roles is not None
    sex = members[roles.sex] if roles.sex else None
    return LinkedTable(
        schema=schema,
        households=CodedTable(schema=schema.households, columns=own),
        members=CodedTable(schema=schema.members, columns=members),
        owner=owner,
        role=roles_by_rule(roles, age, sex, owner, len(next(iter(own.values())))),
    )


def flattened_schema(schema: LinkedSchema) -> Schema:
    """One row for each household with a slot for each member in order; structural zeros keep empty slots empty."""
    attributes = [*schema.households.attributes, Attribute(name="size", levels=tuple(range(1, schema.at_most + 1)))]
    zeros = []
    for place in range(1, schema.at_most + 1):
        for number, one in enumerate(schema.members.attributes):
            names = (*(name.strip("<>") for name in one.code_names), NONE)
            attributes.append(Attribute(name=f"m{place}_{one.name}", levels=names))
            first = f"m{place}_{schema.anchor}"
            if number == 0:
                small = tuple(str(size) for size in range(1, place))
                large = tuple(str(size) for size in range(place, schema.at_most + 1))
                pairs = [("size", large, (NONE,))] + ([("size", small, names[:-1])] if small else [])
            else:
                anchors = tuple(name.strip("<>") for name in schema.members[schema.anchor].code_names)
                pairs = [(first, anchors, (NONE,)), (first, (NONE,), names[:-1])]
            for left, values, right in pairs:
                zeros.append(Impossible(conditions=((left, Condition(levels=values)),
                                                    (f"m{place}_{one.name}", Condition(levels=right)))))  # fmt: skip
    return Schema(attributes=tuple(attributes), impossible=tuple(zeros))


def flattened(truth: LinkedTable, budget: us.ApproxDP, unit: str) -> LinkedTable:
    schema = truth.schema
    flat = flattened_schema(schema)
    count = truth.households.rows
    place = np.arange(len(truth.owner)) - np.searchsorted(truth.owner, truth.owner)
    columns: dict[str, Any] = {name: np.asarray(codes) for name, codes in truth.households.columns.items()}
    columns["size"] = truth.by_role.sum(axis=1) - 1
    for number in range(1, schema.at_most + 1):
        here = place == number - 1
        for one in schema.members.attributes:
            codes = np.full(count, one.size)
            codes[truth.owner[here]] = truth.members.columns[one.name][here]
            columns[f"m{number}_{one.name}"] = codes
    stream = public_words()
    frame = decode(CodedTable(schema=flat, columns=columns), stream, "flat")
    who = us.Unit(kind="replace", fixed=(*schema.households.names, "size") if unit == "person" else ())
    release = us.synthesize(frame, schema=flat, budget=budget, unit=who, method="aim")
    drawn = encode_table(release.frame(), flat).columns
    size = drawn["size"].astype(np.int64) + 1
    owner = np.repeat(np.arange(len(size)), size)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
    members = {}
    for one in schema.members.attributes:
        slots = np.stack([drawn[f"m{k}_{one.name}"] for k in range(1, schema.at_most + 1)])
        members[one.name] = np.minimum(slots[number, owner], one.size - 1).astype(np.int64)
    return linked_by_rule(schema, {name: drawn[name] for name in schema.households.names}, members, owner)


def independent(truth: LinkedTable, budget: us.ApproxDP, unit: str) -> LinkedTable:
    """Members who know nothing of each other, put into households of the released sizes."""
    schema, stream = truth.schema, public_words()
    half = us.ApproxDP(epsilon=budget.epsilon / 2, delta=budget.delta / 2)
    size = Attribute(name="size", levels=tuple(range(1, schema.at_most + 1)))
    own = Schema(attributes=(*schema.households.attributes, size))
    columns = {**truth.households.columns, "size": truth.by_role.sum(axis=1) - 1}
    homes = decode(CodedTable(schema=own, columns=columns), stream, "own")
    if unit == "person":
        drawn, spent, who = CodedTable(schema=own, columns=columns).columns, budget, us.Unit(kind="replace")
    else:
        made = us.synthesize(homes, schema=own, budget=half, method="aim")
        drawn, spent = encode_table(made.frame(), own).columns, half
        who = us.Unit(kind="replace", rows_per_unit=schema.at_most, unit_id="household")
    people = decode(truth.members, stream, "people")
    people = people.append_column("household", pa.array(truth.owner.astype(str)))
    listed = us.Schema(attributes=schema.members.attributes, impossible=schema.members.impossible,
                       ignore=("household",))  # fmt: skip
    sizes = drawn["size"].astype(np.int64) + 1
    release = us.synthesize(people, schema=listed, budget=spent, unit=who, method="aim", rows=int(sizes.sum()))
    codes = encode_table(release.frame(), listed).columns
    owner = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.random.default_rng().permutation(len(owner))
    members = {name: np.asarray(codes[name])[shuffled].astype(np.int64) for name in schema.members.names}
    return linked_by_rule(schema, {name: drawn[name] for name in schema.households.names}, members, owner)


def compare(runs: int, only: list[str]) -> None:
    schema = parse_any_schema(SCHEMA.read_text(encoding="utf-8"), str(SCHEMA))
    assert isinstance(schema, LinkedSchema)
    source = open_households(str(SHARED / "eusilc" / "eusilc.parquet"), schema)
    truth = source.confidential_families()
    ways = {
        "families": lambda budget, unit: families(source, budget, unit, "public"),
        "families, aim": lambda budget, unit: families(source, budget, unit, "aim"),
        "flattened, aim": lambda budget, unit: flattened(truth, budget, unit),
        "independent members": lambda budget, unit: independent(truth, budget, unit),
    }
    for epsilon in (1, 4):
        for unit in ("household", "person"):
            for name, way in ways.items():
                if only and name not in only:
                    continue
                rows, spent = [], []
                for _ in range(runs):
                    begun = time.process_time()
                    made = way(us.ApproxDP(epsilon=epsilon, delta=DELTA), unit)
                    spent.append(time.process_time() - begun)
                    wrong = int((made.compositions < 0).sum()) or impossible_households(made)
                    rows.append({**scores(truth, made), "impossible": wrong})
                mean = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                cost = {"cpu_seconds": round(float(np.mean(spent)), 1), "peak_mb": memory}
                told = {"epsilon": epsilon, "unit": unit, "method": name, "runs": runs, **mean, **cost}
                print(json.dumps(told), flush=True)


EARNED = """
[[attribute]]
table = "persons"
name = "earned"
edges = [0, 1, 1000, 2000, 3000, 4000, 6000]

[[derived]]
name = "total"
function = "sum"
of = "earned"
edges = [0, 1500, 3000, 4500, 6000, 9000, 18000]

[[derived]]
name = "equivalised"
function = "equivalised"
of = "earned"
age = "age"
edges = [0, 900, 1800, 2700, 6000]
"""
QUESTIONS = (
    ("proportion(size == 1)", None),
    ("proportion(income == 'low')", None),
    ("proportion(income == 'low')", "child"),
    ("proportion(income == 'low')", "member"),
    ("proportion(partner_age >= 45)", None),
    ("mean(partner_age) - mean(reference_age, where=partner_age >= 0)", None),
    ("proportion(total >= 4500)", None),
    ("proportion(equivalised < 900)", None),
    ("proportion(equivalised < 900)", "child"),
    ("proportion(equivalised < 900)", "member"),
    ("mean(total)", None),
    ("proportion(sex == 'F')", None),
    ("proportion(works == 'yes', where=age >= 18)", None),
)
OF_MEMBERS = ("proportion(sex == 'F')", "proportion(works == 'yes', where=age >= 18)")  # under the unit of a person


def with_earnings(households: int, seed: int) -> pa.Table:
    """Generated families with what each member earns."""
    rng = np.random.default_rng(seed)
    table = make_families(households, seed=seed)
    works = np.array(table["works"].to_numpy(zero_copy_only=False)) == "yes"
    earned = np.where(works, np.clip(rng.gamma(4, 550, len(works)), 1, 5990), 0)
    return table.append_column("earned", pa.array(np.round(earned, 2)))


def coverage(files: int, to: Path, first: int, households: int = 1000) -> None:
    """How often intervals hold the truth of the population that files of households are drawn from."""
    schema = parse_any_schema(FAMILIES_SCHEMA + EARNED, "families")
    assert isinstance(schema, LinkedSchema)
    done = {json.loads(line)["seed"] for line in to.read_text().splitlines()} if to.exists() else set()
    truth = population_truth(schema)
    for seed in range(first, first + files):
        if seed in done:
            continue
        epsilon = (1, 4)[seed % 2]
        unit = ("household", "person", "add_remove")[seed // 2 % 3]
        release: Any = us.synthesize(
            with_earnings(households, seed), schema=schema, unit=unit,
            budget=us.ApproxDP(epsilon=epsilon, delta=DELTA),
        )  # fmt: skip
        hits: list[Any] = []
        for question, weighted in QUESTIONS:
            if question in OF_MEMBERS and unit != "person":
                hits.append(None)
                continue
            answer = us.infer(release, question, weighted=weighted)
            one = answer.estimates[0]
            hits.append([bool(one.low <= truth[question, weighted] <= one.high), one.high - one.low, answer.labels[0]])
        with to.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"seed": seed, "epsilon": epsilon, "unit": unit, "hits": hits}) + "\n")
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    for place, (question, weighted) in enumerate(QUESTIONS):
        asked = [row["hits"][place] for row in rows if row["hits"][place] is not None]
        if not asked:
            continue
        held = [hit[0] for hit in asked]
        labels = sorted({hit[2] for hit in asked})
        width = np.median([hit[1] for hit in asked])
        print(f"{question} of {weighted or 'household'}: {np.mean(held):.3f} of {len(held)} files, width {width:.3f}, "
              f"{labels}")  # fmt: skip


def population_truth(schema: LinkedSchema) -> dict[tuple[str, str | None], float]:
    """The truth of the questions in the population: from one very large file."""
    people = with_earnings(300_000, 10**9)
    linked = open_households(people, schema).confidential_families()
    size = linked.by_role.sum(axis=1)
    low = linked.households.columns["income"] == 0
    children = linked.by_role[:, 2]
    total, fair = (linked.derived_columns()[name] for name in ("total", "equivalised"))
    poor = fair == 0
    partner = np.full(len(size), -1.0)
    ages = np.array(schema.members["age"].edges[:-1], dtype=float)
    here = linked.role == 1
    partner[linked.owner[here]] = ages[linked.members.columns["age"][here].astype(int)]
    sex, age, works = (linked.members.columns[name] for name in ("sex", "age", "works"))
    found = [
        float((size == 1).mean()),
        float(low.mean()),
        float((children * low).sum() / children.sum()),
        float((size * low).sum() / size.sum()),
        float((partner >= 45).mean()),
        _apart(people),
        float((total >= 3).mean()),
        float(poor.mean()),
        float((children * poor).sum() / children.sum()),
        float((size * poor).sum() / size.sum()),
        float(linked.numbers["earned"].sum() / len(size)),
        float((sex == 0).mean()),
        float(works[age >= 3].mean()),
    ]
    return dict(zip(QUESTIONS, found, strict=True))


def _apart(people: pa.Table) -> float:
    """The mean of the partner's age minus the reference person's, over couples."""
    frame = people.select(["household", "relation", "age"]).to_pandas()
    ages = [frame[frame["relation"] == who].set_index("household")["age"] for who in ("spouse", "head")]
    return float((ages[0] - ages[1]).dropna().mean())


def million(households: int) -> None:
    schema = parse_any_schema(FAMILIES_SCHEMA, "families")
    table = make_families(households, seed=1)
    begun = time.process_time()
    release: Any = us.synthesize(
        table,
        schema=schema,
        unit="household",
        budget=us.ApproxDP(epsilon=1, delta="1e-9"),  # type: ignore[arg-type]
    )
    spent = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wrong = impossible_households(release.linked())
    print(f"{households:,} households with {table.num_rows:,} members: {spent:.0f} CPU seconds, {memory:.1f} GB, "
          f"{wrong} impossible")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compare", "coverage", "million"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--to", type=Path, default=Path("households-coverage.jsonl"))
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "compare":
        compare(given.runs, given.only)
    elif given.what == "coverage":
        coverage(given.files, given.to, given.first)
    else:
        million(given.households)


if __name__ == "__main__":
    main()
