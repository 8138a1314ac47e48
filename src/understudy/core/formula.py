"""Regression formulas such as ``income ~ age + sex * education``, read by a small grammar and never evaluated.

A formula is data: names of attributes, ``+``, ``:`` (interaction), ``*`` (main effects and interaction), ``.`` (all
other attributes), ``- 1`` or ``+ 0`` (no intercept), and the listed functions of one attribute. Anything else is
refused with what is allowed, so a formula from a file or a web form cannot run code.

    outcome := factor | name == 'level'
    formula := outcome ~ term + term ...      term := factor : factor ... | factor * factor ...
    factor  := name | `any name` | log(name) | sqrt(name) | square(name) | C(...) | I(...) | bs(...)

Factors are read by ``core/regression_terms.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from understudy.core.regression_terms import FUNCTIONS, Factor, read_call
from understudy.errors import InputError, unknown_name

__all__ = ["Factor", "Formula", "parse_formula"]

MOST_FACTORS = 8  # factors of one term: a * b * ... of eight stands for 255 terms, and each further factor doubles that
ALLOWED = "names of attributes, + : * . and C(), log(), sqrt(), square(), I(), bs() of one attribute"
CALL = re.compile(r"\s*(?:I|bs|C)\s*\(")
TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`[^`]*`)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<name>[^\W\d]\w*(?:\.\w+)*)|(?P<mark>==|[~+:*().\-]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An outcome (with ``level``: whether it has that level) and terms, each a product of factors."""

    text: str
    outcome: Factor
    level: str | None
    terms: tuple[tuple[Factor, ...], ...]
    intercept: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Every attribute it uses, the outcome first."""
        used = [self.outcome.name, *(factor.name for term in self.terms for factor in term)]
        return tuple(dict.fromkeys(used))


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """Read a formula over the named attributes.

    >>> formula = parse_formula("smokes == 'yes' ~ age * sex", ["age", "sex", "smokes"])
    >>> formula.level, [" : ".join(map(str, term)) for term in formula.terms]
    ('yes', ['age', 'sex', 'age : sex'])
    """
    reader = _Reader(text, _tokens(text), names)
    outcome, level = reader.outcome()
    reader.expect("~")
    terms, intercept = reader.terms(outcome.name)
    used = {factor for term in terms for factor in term}
    if outcome.name in {factor.name for factor in used}:
        raise InputError(f"model '{text}': '{outcome.name}' is both the outcome and a predictor.")
    for term in terms:
        if len({factor.name for factor in term}) < len(term):
            raise InputError(f"model '{text}': the interaction {_shown(term)} names an attribute twice.")
        for factor in term if len(term) > 1 else ():
            if (factor,) not in terms:
                raise InputError(
                    f"model '{text}': the interaction {_shown(term)} needs its main effects; write "
                    f"{' * '.join(map(str, term))} instead."
                )
    return Formula(text=text, outcome=outcome, level=level, terms=terms, intercept=intercept)


def _shown(term: Iterable[Factor]) -> str:
    return ":".join(map(str, term))


def _tokens(text: str) -> list[tuple[str, str]]:
    if not isinstance(text, str) or len(text) > 5000:
        raise InputError('a model must be a text such as "income ~ age + sex".')
    tokens, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        if CALL.match(stripped, place):
            end = _closing(stripped, place, text)
            tokens.append(("call", stripped[place:end].strip()))
            place = end
            continue
        match = TOKEN.match(stripped, place)
        if match is None or match.lastgroup is None:
            raise InputError(
                f"model '{text}' cannot be read at {stripped[place:].strip()[:12]!r}; it may use {ALLOWED}."
            )
        tokens.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return tokens


def _closing(stripped: str, place: int, text: str) -> int:
    """Where the bracket of a call ends; brackets in quotes do not count."""
    depth = 0
    for match in re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[()]").finditer(stripped, place):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0 and match[0] == ")":
            return match.end()
    raise InputError(f"model '{text}': the bracket of {stripped[place:].strip()[:12]!r} does not end.")


class _Reader:
    def __init__(self, text: str, tokens: list[tuple[str, str]], names: Sequence[str]) -> None:
        self.text, self.names = text, names
        self._tokens, self._place = tokens, 0

    def _next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise InputError(f"model '{self.text}' ends too early; it must look like \"income ~ age + sex\".")
        self._place += 1
        return self._tokens[self._place - 1]

    def _ahead(self) -> str:
        return self._tokens[self._place][1] if self._place < len(self._tokens) else ""

    def expect(self, mark: str) -> None:
        kind, value = self._next()
        if (kind, value) != ("mark", mark):
            raise InputError(f"model '{self.text}' has {value!r} where {mark!r} was expected.")

    def outcome(self) -> tuple[Factor, str | None]:
        factor = self._factor()
        if self._ahead() != "==":
            return factor, None
        self.expect("==")
        kind, value = self._next()
        if kind not in ("text", "number", "name"):
            raise InputError(f"model '{self.text}': write the level in quotes, as in sex == 'F'.")
        if factor.function:
            raise InputError(f"model '{self.text}': a level belongs to an attribute, not to {factor}.")
        return factor, value[1:-1] if kind == "text" else value

    def terms(self, outcome: str) -> tuple[tuple[tuple[Factor, ...], ...], bool]:
        """The terms, and whether there is an intercept."""
        found: list[tuple[Factor, ...]] = []
        intercept, sign = True, "+"
        while True:
            if self._ahead() in ("0", "1"):
                intercept = (self._next()[1] == "1") == (sign == "+")
            elif sign == "-":
                raise InputError(f"model '{self.text}': only the intercept can be taken away, by - 1.")
            else:
                found += self._term(outcome)
            if self._place >= len(self._tokens):
                break
            sign = "-" if self._ahead() == "-" else "+"
            self.expect(sign)
        if not found:
            raise InputError(f"model '{self.text}' has no predictor.")
        main = [term for term in dict.fromkeys(found) if len(term) == 1]
        return (*main, *(term for term in dict.fromkeys(found) if len(term) > 1)), intercept

    def _term(self, outcome: str) -> list[tuple[Factor, ...]]:
        if self._ahead() == ".":
            self._next()
            return [(Factor(name=name),) for name in self.names if name != outcome]
        factors, marks = [self._factor()], set()
        while self._ahead() in (":", "*"):
            marks.add(self._next()[1])
            factors.append(self._factor())
        if len(factors) > MOST_FACTORS:
            raise InputError(
                f"model '{self.text}' joins {len(factors)} attributes in one term; at most {MOST_FACTORS} can be."
            )
        if marks == {":", "*"}:
            raise InputError(f"model '{self.text}' mixes ':' and '*' in one term; write the interactions out.")
        if marks == {"*"}:
            return [part for size in range(1, len(factors) + 1) for part in combinations(factors, size)]
        return [tuple(factors)]

    def _factor(self) -> Factor:
        kind, value = self._next()
        if kind == "call":
            return read_call(value, self.text, self.names)
        if kind == "quoted":
            return Factor(name=self._known(value[1:-1]))
        if kind != "name":
            raise InputError(
                f"model '{self.text}' has {value!r} where an attribute was expected; it may use {ALLOWED}."
            )
        if self._ahead() != "(":
            return Factor(name=self._known(value))
        if value not in FUNCTIONS:
            raise unknown_name(f"model '{self.text}': function", value, FUNCTIONS, error=InputError)
        self.expect("(")
        kind, name = self._next()
        if kind not in ("name", "quoted"):
            raise InputError(f"model '{self.text}': {value}() takes one attribute.")
        self.expect(")")
        return Factor(name=self._known(name.strip("`")), function=value)

    def _known(self, name: str) -> str:
        if name not in self.names:
            raise unknown_name(f"model '{self.text}': attribute", name, self.names, error=InputError)
        return name
