"""How the attributes and levels of a release are written in a question: for help while typing, and for examples."""

from __future__ import annotations

from understudy.core.schema import Schema, level_text
from understudy.core.workload import quoted

FEW = 40  # levels of an attribute that an example is about


def words_of(schema: Schema) -> dict[str, list[str]]:
    """Every attribute with its levels, or with the range of its numbers, as people read them."""
    return {
        one.name: [level_text(level) for level in one.levels]
        or [f"{level_text(one.edges[0])} to {level_text(one.edges[-1])}"]
        for one in schema.attributes
    }


def written(schema: Schema) -> dict[str, list[str]]:
    """Every attribute with its levels, as a question writes them; none for numbers.

    >>> from understudy.core.schema import Attribute
    >>> written(Schema(attributes=(Attribute(name="class", levels=("it's", "b")), Attribute(name="age", edges=(0, 9)))))
    {'`class`': ['"it\\'s"', "'b'"], 'age': []}
    """
    return {quoted(one.name): [repr(level_text(level)) for level in one.levels] for one in schema.attributes}


def examples(schema: Schema) -> list[str]:
    """Questions that this release can be asked, one of each kind that its attributes allow.

    >>> from understudy.core.schema import Attribute
    >>> schema = Schema(attributes=(Attribute(name="age", edges=(0, 9, 99)), Attribute(name="sex", levels=("F", "M"))))
    >>> examples(schema)
    ["proportion(sex == 'F')", "mean(age, where=sex == 'F')"]
    """
    words = written(schema)
    about = [one for one in schema.attributes if one.name not in schema.weights]
    numbers = [quoted(one.name) for one in about if one.kind == "numeric"]
    short = sorted((one for one in about if 2 <= len(one.levels) <= FEW), key=lambda one: len(one.levels))
    names = [quoted(one.name) for one in short]
    shares = [f"{name} == {words[name][0]}" for name in names[:1]]
    found = [f"proportion({share})" for share in shares]
    found += [f"mean({number}, where={share})" for number in numbers[:1] for share in shares]
    found += [f"mean({number})" for number in numbers[:1] if not shares]
    found += [f"crosstab({names[0]}, {names[1]})"] if len(names) > 1 else []
    found += [f"{names[1]} ~ {' + '.join([*numbers[:1], names[0]])}"] if len(names) > 1 else []
    return found
