"""One attribute as a term of a regression: by itself, by a function, an expression, a spline, or its categories.

    name   log(name)   sqrt(name)   square(name)   C(name)   C(name, Treatment('level'))
    I(expression)                  arithmetic and one comparison, of one attribute: I(age ** 2), I(age >= 45)
    bs(name, df=5)                 B-spline of degree 3 with knots at equal distances inside the public bounds
    bs(name, knots=[30, 50], degree=2)

An expression is read from Python's syntax tree by a closed list of its nodes, and never evaluated as a program. The
knots of a spline are public, since quantiles of the data are not known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.errors import InputError, unknown_name

FUNCTIONS = ("C", "log", "sqrt", "square", "I", "bs")
MOST_KNOTS = 20
LARGEST_POWER = 10
DEGREE = 3
ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}
COMPARED: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
CALLED: Mapping[str, Callable[[Any], Any]] = {"log": np.log, "sqrt": np.sqrt, "exp": np.exp}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Factor:
    """One attribute, perhaps by a function. ``C`` asks for its bins as categories.

    ``detail``: the expression of ``I``, the reference level of ``C``, or degree and knots of a spline, as text.
    """

    name: str
    function: str = ""
    detail: str = ""

    def __str__(self) -> str:
        if self.function == "I":
            return f"I({self.detail})"
        if self.function == "C" and self.detail:
            return f"C({self.name}, Treatment({self.detail!r}))"
        if self.function == "bs":
            return f"bs({self.name}, {self.detail})"
        return f"{self.function}({self.name})" if self.function else self.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, where it is a number."""
        if self.function != "bs":
            return (str(self),)
        settings = spline_settings(self.detail)
        size = settings.size if settings.knots is None else len(settings.knots) + settings.degree
        return tuple(f"{self}[{place}]" for place in range(1, size + 1))

    def of(self, values: Floats, bounds: tuple[float, float]) -> Floats:
        """Its columns (values, columns) where the attribute has some values; ``bounds``: the public ones."""
        if self.function == "bs":
            return _spline(values, bounds, self)
        return np.asarray(_number(self, values), np.float64)[:, None]


def hide_quoted(text: str) -> tuple[str, Mapping[str, str]]:
    """A text with names in backticks put behind placeholders, and what those stand for."""
    names: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        if match["name"] is None:  # a text between quotes, which may hold backticks of its own
            return match[0]
        names[f"_quoted_{len(names)}"] = match["name"]
        return f"_quoted_{len(names) - 1}"

    plain = re.sub(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?P<name>[^`]+)`", hide, text.strip())
    return plain, names


def read_call(text: str, model: str, known: Sequence[str]) -> Factor:
    """The factor that ``I(...)``, ``bs(...)`` or ``C(...)`` means in a model."""
    plain, quoted = hide_quoted(text)
    try:
        node = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"model '{model}': {text} cannot be read.") from None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise InputError(f"model '{model}': {text} cannot be read.")

    def name_of(one: ast.expr) -> str:
        if not isinstance(one, ast.Name):
            raise InputError(f"model '{model}': {node.func.id}() takes one attribute.")  # type: ignore[attr-defined]
        name = quoted.get(one.id, one.id)
        if name not in known:
            raise unknown_name(f"model '{model}': attribute", name, known, error=InputError)
        return name

    if node.func.id == "I":
        return _expression(node, text, model, name_of, quoted)
    if not node.args:
        raise InputError(f"model '{model}': {node.func.id}() takes one attribute.")
    name = name_of(node.args[0])
    if node.func.id == "C":
        return Factor(name=name, function="C", detail=_reference(node, text, model))
    return Factor(name=name, function="bs", detail=_spline_detail(node, text, model))


def _expression(
    call: ast.Call, text: str, model: str, name_of: Callable[[ast.expr], str], quoted: Mapping[str, str]
) -> Factor:
    if len(call.args) != 1 or call.keywords:
        raise InputError(f"model '{model}': I() takes one expression, such as I(age ** 2) or I(age >= 45).")
    body = call.args[0]
    functions = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    found = {name_of(node) for node in ast.walk(body) if isinstance(node, ast.Name) and id(node) not in functions}
    if len(found) != 1:
        raise InputError(
            f"model '{model}': {text} must be about one attribute; for products of two write first * second."
        )
    (name,) = found
    _value(body, np.ones(1), model, text)  # refuses what is outside the grammar
    shown = ast.unparse(body)
    for placeholder, real in quoted.items():
        shown = shown.replace(placeholder, f"`{real}`")
    return Factor(name=name, function="I", detail=shown)


def _number(factor: Factor, values: Floats) -> Floats:
    """A listed function, or an expression, of the values of an attribute."""
    with np.errstate(all="ignore"):
        if factor.function == "I":
            plain, _ = hide_quoted(factor.detail)
            found = np.asarray(_value(ast.parse(plain, mode="eval").body, values, str(factor), str(factor)), np.float64)
        elif factor.function == "square":
            found = values**2
        elif factor.function in ("log", "sqrt"):
            found = CALLED[factor.function](values)
        else:
            found = values
    if not np.isfinite(found).all():
        bad = values[~np.isfinite(np.broadcast_to(found, values.shape))]
        needs = {"log": " needs positive values", "sqrt": " needs values of at least 0"}.get(
            factor.function, " is no number somewhere"
        )
        raise InputError(f"{factor}{needs}, and '{factor.name}' may be {bad.min():g}.")
    return np.asarray(np.broadcast_to(found, values.shape))


def _value(node: ast.expr, values: Floats, model: str, text: str, depth: int = 0) -> Any:
    if depth > 50:
        raise InputError(f"model '{model}': {text} is nested too deeply.")

    def part(one: ast.expr) -> Any:
        return _value(one, values, model, text, depth + 1)

    if isinstance(node, ast.Name):
        return values
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -part(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return ARITHMETIC[type(node.op)](part(node.left), part(node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = part(node.right)
        if not isinstance(power, float) or abs(power) > LARGEST_POWER:
            raise InputError(f"model '{model}': {text} takes powers that are numbers up to {LARGEST_POWER}.")
        return np.power(np.asarray(part(node.left), np.float64), power)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        return np.asarray(COMPARED[type(node.ops[0])](part(node.left), part(node.comparators[0])), np.float64)
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and called in CALLED and len(node.args) == 1 and not node.keywords:
        return CALLED[called](part(node.args[0]))
    raise InputError(
        f"model '{model}': {text} may use one attribute, numbers, + - * / **, one comparison, log(), sqrt() and exp()."
    )


def _reference(call: ast.Call, text: str, model: str) -> str:
    """The reference level that ``Treatment`` names; empty: the first."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    if not given:
        return ""
    (one, *others) = given
    inner = one.args[0] if isinstance(one, ast.Call) and len(one.args) == 1 and not one.keywords else None
    named = isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "Treatment"
    if others or not named or not isinstance(inner, ast.Constant):
        raise InputError(f"model '{model}': {text} may name a reference level, as in C(region, Treatment('North')).")
    return str(inner.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spline:
    degree: int
    size: int
    knots: tuple[float, ...] | None


def _spline_detail(call: ast.Call, text: str, model: str) -> str:
    problem = InputError(
        f"model '{model}': {text} must be like bs(age, df=5) or bs(age, knots=[30, 50], degree=3), with at most "
        f"{MOST_KNOTS} knots in rising order."
    )
    said: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            said[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except (ValueError, SyntaxError, TypeError):
            raise problem from None
    degree, size, knots = said.pop("degree", DEGREE), said.pop("df", None), said.pop("knots", None)
    if said or len(call.args) != 1 or (size is None) == (knots is None) or type(degree) is not int:
        raise problem
    if not 1 <= degree <= 5:
        raise problem
    if knots is not None:
        numbers = isinstance(knots, list | tuple) and all(type(one) in (int, float) for one in knots)
        if not numbers or not 1 <= len(knots) <= MOST_KNOTS or any(b <= a for a, b in pairwise(knots)):
            raise problem
        return f"knots=[{', '.join(f'{one:g}' for one in knots)}], degree={degree}"
    if type(size) is not int or not degree <= size <= degree + MOST_KNOTS:
        raise problem
    return f"df={size}, degree={degree}"


def spline_settings(detail: str) -> _Spline:
    """What the text of a spline says."""
    call = ast.parse(f"f({detail})", mode="eval").body
    said = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}  # type: ignore[attr-defined]
    knots = said.get("knots")
    return _Spline(degree=said["degree"], size=said.get("df", 0), knots=None if knots is None else tuple(knots))


def _spline(values: Floats, bounds: tuple[float, float], factor: Factor) -> Floats:
    """The B-splines of Cox and de Boor without the first, which the intercept stands for."""
    settings = spline_settings(factor.detail)
    low, high = bounds
    inner = settings.knots
    if inner is None:
        inner = tuple(np.linspace(low, high, settings.size - settings.degree + 2)[1:-1])
    if inner and not (low < min(inner) and max(inner) < high):
        raise InputError(f"{factor}: the knots must be between the public bounds {low:g} and {high:g}.")
    degree = settings.degree
    knots = np.array([low] * (degree + 1) + list(inner) + [high] * (degree + 1))
    values = np.clip(values, low, high)
    last = np.searchsorted(knots, high, side="left") - 1  # the upper bound belongs to the last interval
    place = np.minimum(np.searchsorted(knots, values, side="right") - 1, last)
    basis = (place[:, None] == np.arange(len(knots) - 1)).astype(np.float64)
    for order in range(1, degree + 1):
        count = len(knots) - order - 1
        rising, falling = knots[order : order + count] - knots[:count], knots[order + 1 :] - knots[1 : count + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(rising > 0, (values[:, None] - knots[:count]) / rising, 0.0)
            second = np.where(falling > 0, (knots[order + 1 :] - values[:, None]) / falling, 0.0)
        basis = first * basis[:, :count] + second * basis[:, 1 : count + 1]
    return np.asarray(basis[:, 1:])
