"""Generated families with known roles: for demonstrations, and for tests of coverage. Nobody in them exists.

A household has a reference person. Most of middle age have a partner of about their age, and children who are about
thirty years younger and close to each other in age. Some households have another member, such as a grandparent. Low
incomes are more frequent in large households.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

AT_MOST = 6
ADULT, OLDEST = 18, 94
INCOMES = ("low", "middle", "high")
RELATIONS = ("head", "spouse", "child", "other")
FAMILIES_SCHEMA = """version = 1

[[table]]
name = "households"
id = "household"

[[table]]
name = "persons"
parent = "households"
id = "person"
at_most = 6

[roles]
column = "relation"
reference = ["head"]
partner = ["spouse"]
child = ["child"]
most = { child = 3, other = 1 }

[[attribute]]
table = "households"
name = "region"
levels = ["North", "South", "East", "West"]

[[attribute]]
table = "households"
name = "income"
levels = ["low", "middle", "high"]
ordered = true

[[attribute]]
table = "persons"
name = "age"
edges = [0, 6, 12, 18, 25, 35, 45, 55, 65, 75, 95]
integer = true

[[attribute]]
table = "persons"
name = "sex"
levels = ["F", "M"]

[[attribute]]
table = "persons"
name = "works"
levels = ["no", "yes"]

[[impossible]]
age = { below = 18 }
works = ["yes"]

[[impossible]]
partner.age = { below = 18 }

[[rule]]
order = ["child.age", "reference.age"]
"""
REGIONS = ("North", "South", "East", "West")


def make_families(households: int, *, seed: int = 0) -> pa.Table:
    """Make families: one row for each member, with the id of the household.

    Parameters
    ----------
    households
        How many.
    seed
        Families of the same seed are the same.

    Returns
    -------
    pa.Table
        Columns ``household``, ``person``, ``relation``, ``region``, ``income``, ``age``, ``sex`` and ``works``.

    Raises
    ------
    InputError
        If there is to be no household.

    Examples
    --------
    >>> make_families(3, seed=1).column_names
    ['household', 'person', 'relation', 'region', 'income', 'age', 'sex', 'works']
    """
    import pyarrow as pa

    if households < 1:
        raise InputError(f"households ({households}) must be at least 1.")
    rng = np.random.default_rng(seed)
    head = np.clip(np.rint(rng.normal(50, 17, households)), 20, OLDEST).astype(np.int64)
    middle = (head >= 28) & (head <= 70)
    partner = rng.random(households) < np.where(middle, 0.65, 0.35)
    young = (head >= 25) & (head <= 58)
    children = np.where(young & (rng.random(households) < np.where(partner, 0.75, 0.25)),
                        rng.choice([1, 2, 3], households, p=[0.45, 0.42, 0.13]), 0)  # fmt: skip
    other = (rng.random(households) < 0.05).astype(np.int64)
    size = 1 + partner + children + other
    owner = np.repeat(np.arange(households), size)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
    relation = np.full(len(owner), 3)
    relation[number == 0] = 0
    relation[(number == 1) & partner[owner]] = 1
    after = number - 1 - partner[owner]
    relation[(after >= 0) & (after < children[owner])] = 2
    age = head[owner].copy()
    spouse, child, rest = (relation == place for place in (1, 2, 3))
    age[spouse] = np.clip(age[spouse] + np.rint(rng.normal(-1, 4, spouse.sum())), ADULT, OLDEST).astype(np.int64)
    eldest = np.clip(head - 20 - rng.integers(0, 12, households), 0, 40)
    gap = 2.5 * after[child] + rng.integers(0, 2, child.sum())
    age[child] = np.maximum(eldest[owner[child]] - gap, 0).astype(np.int64)
    age[rest] = np.clip(head[owner[rest]] + rng.choice([-12, 28], rest.sum()), ADULT, OLDEST)
    sex = rng.integers(0, 2, len(owner))
    first = np.searchsorted(owner, np.arange(households))
    apart = rng.random(households) < 0.97
    sex[spouse] = np.where(apart[owner[spouse]], 1 - sex[first][owner[spouse]], sex[first][owner[spouse]])
    works = (age >= ADULT) & (age < 65) & (rng.random(len(owner)) < np.where(sex == 1, 0.8, 0.7))
    region = rng.choice(4, households, p=[0.4, 0.3, 0.2, 0.1])
    low = 0.18 + 0.05 * children + 0.04 * (region == 2)
    income = np.where(rng.random(households) < low, 0, 1 + (rng.random(households) < 0.35))
    return pa.table(
        {
            "household": owner + 1,
            "person": number + 1,
            "relation": np.array(RELATIONS)[relation],
            "region": np.array(REGIONS)[region][owner],
            "income": np.array(INCOMES)[income][owner],
            "age": age,
            "sex": np.array(["F", "M"])[sex],
            "works": np.array(["no", "yes"])[works.astype(np.int64)],
        }
    )
