"""The weight and the sampling design of a survey: what a schema says of them, and what follows for questions.

A weight is data about a person. So it is one more private attribute: its bins are found inside the budget (``bounds``)
or are public (``edges``), and every table that has it is a table of counts. A weighted table is a sum over its bins. So
one person changes what is measured by one count, however large the weight is. See docs/theory/survey-weights.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from understudy.core.sampling_scheme import KEYS, Sampling, check_sampling
from understudy.errors import InputError, SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Schema

ORIGINS = ("design", "nonresponse", "calibrated")
OUTSIDE = ("error", "clip")
SUMS = ("population", "sample")
PROTECTS = ("person", "cluster")
BINS = 4  # of a weight, by default: more bins add noise, fewer hide how answers go with the weight
MOST_BINS = 64
AGREE = 1e-6  # relative: public totals that differ by more contradict each other
EVERYTHING = "*"
REPLICATES = (
    "replicate weights are not read: each would be one more private column, and what they are for, the variance of the "
    "design, follows from the weight, the declared design and the noise"
)
OTHERS_FIXED = (
    "the weights were adjusted (nonresponse, calibration, or a scale that makes them add up to the number of rows), so "
    "they depend on everybody. The guarantee takes the weights of the others as fixed: it does not cover what a "
    "person's data changed in the weights of other people"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Public totals of the population, by the levels of one attribute.

    Raises
    ------
    SchemaError
        If a total is not a positive finite number, or there is none.
    """

    attribute: str
    """The attribute."""
    totals: tuple[tuple[str, float], ...]
    """Pairs of a level and the number of people who have it; in a schema file a table: ``{ F = 510, M = 490 }``."""

    def __post_init__(self) -> None:
        pairs = self.totals.items() if isinstance(self.totals, Mapping) else self.totals
        object.__setattr__(self, "totals", tuple((str(level), value) for level, value in pairs))
        where = f"[[weight.total]] of '{self.attribute}'"
        if not isinstance(self.attribute, str) or not self.totals:
            raise SchemaError(f"{where} needs an attribute and totals, such as {{ F = 510, M = 490 }}.")
        for level, value in self.totals:
            _positive(value, f"{where}: the total of '{level}'")

    @property
    def sum(self) -> float:
        """Everybody."""
        return math.fsum(value for _, value in self.totals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A column of survey weights.

    Raises
    ------
    SchemaError
        If its parts contradict each other.

    Examples
    --------
    >>> Weight(column="w", bounds=(100, 5000)).adjusted
    False
    """

    column: str
    """The column of the data."""
    bounds: tuple[float, ...] = ()
    """The public smallest and largest possible weight. Bins are found inside the budget. Either ``bounds`` or
    ``edges``."""
    edges: tuple[float, ...] = ()
    """Public ends of bins, instead of ``bounds``; best about equally far apart on a logarithmic scale."""
    origin: Literal["design", "nonresponse", "calibrated"] = "design"
    """How the weight came about: the inverse of a probability of the ``design``, or adjusted for ``nonresponse``, or
    ``calibrated`` to public totals."""
    totals: tuple[Total, ...] = ()
    """Public totals of the population. The weights of a release agree with them exactly."""
    public_design: bool = False
    """Whether the design that gives every weight is public. Otherwise a weight is confidential, and a unit may not
    name it as fixed."""
    outside: Literal["error", "clip"] = "error"
    """What happens to a weight outside its bounds. A weight that is not positive and finite is always refused."""
    sums_to: Literal["population", "sample"] = "population"
    """What the weights of the data add up to. If they add up to the number of rows, they depend on everybody, and a
    number of people needs ``population`` in the design."""
    bins: int = BINS
    """How many bins are found between ``bounds``, with about as many rows each."""
    decimals: int | None = None
    """How many digits behind the point a weight has."""
    label: str = ""
    """A description of the column."""
    other: tuple[Weight, ...] = ()
    """Further weights. They are private attributes too; a question uses one of them if it is named."""

    def __post_init__(self) -> None:
        where = f"weight '{self.column}'"
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("[weight] needs column, the name of the column that has the weights.")
        for part in ("bounds", "edges", "totals", "other"):
            given = getattr(self, part)
            if not isinstance(given, list | tuple):
                raise SchemaError(f"{where}: {part} must be a list.")
            object.__setattr__(self, part, tuple(given))
        for word, allowed in (("origin", ORIGINS), ("outside", OUTSIDE), ("sums_to", SUMS)):
            if getattr(self, word) not in allowed:
                raise unknown_name(f"{word} of {where}:", str(getattr(self, word)), allowed, error=SchemaError)
        if type(self.public_design) is not bool or not isinstance(self.label, str):
            raise SchemaError(f"{where}: public_design must be true or false, and label a text.")
        if type(self.bins) is not int or not 2 <= self.bins <= MOST_BINS:
            raise SchemaError(f"{where}: bins ({self.bins!r}) must be a whole number from 2 to {MOST_BINS}.")
        if bool(self.bounds) == bool(self.edges):
            raise SchemaError(
                f"{where} needs bounds = [smallest, largest], the public bounds of a weight, or public edges; one of "
                "the two."
            )
        for end in (*self.bounds, *self.edges):
            _positive(end, f"{where}: a bound")
        if self.bounds and (len(self.bounds) != 2 or self.bounds[0] >= self.bounds[1]):
            raise SchemaError(f"{where}: bounds must be the smallest possible weight and then a larger one.")
        if self.origin == "calibrated" and not self.totals:
            raise SchemaError(
                f"{where} is calibrated, so say to which public totals: [[weight.total]] with attribute and totals."
            )
        if any(one.other for one in self.other):
            raise SchemaError(f"{where}: a further weight has no further weights of its own.")
        if any(one.totals for one in self.other) and self.origin != "calibrated":
            raise SchemaError(f"{where}: public totals go with the main weight.")
        columns = [one.column for one in (self, *self.other)]
        if len(set(columns)) != len(columns):
            raise SchemaError(f"{where}: two weights have the same column.")
        self._check_sums()

    def _check_sums(self) -> None:
        if self.totals:
            if self.sums_to != "population":
                raise SchemaError(f"weight '{self.column}': public totals go with sums_to = \"population\".")
            names = [one.attribute for one in self.totals]
            if len(set(names)) != len(names):
                raise SchemaError(f"weight '{self.column}': an attribute has two lists of totals.")
            first, *others = self.totals
            for one in others:
                if abs(one.sum - first.sum) > AGREE * first.sum:
                    raise SchemaError(
                        f"weight '{self.column}': the public totals contradict each other: those of "
                        f"'{first.attribute}' add up to {first.sum:,.6g}, those of '{one.attribute}' to {one.sum:,.6g}."
                    )

    @property
    def adjusted(self) -> bool:
        """Whether the weight depends on the data of everybody: it was adjusted, or scaled to the number of rows."""
        return self.origin != "design" or self.sums_to == "sample"

    def attribute(self, *, measured: bool) -> Attribute:
        """The private attribute that a weight is.

        Parameters
        ----------
        measured
            Whether every method measures it together with each other attribute.

        Returns
        -------
        Attribute
            Numbers in bins that are found, or with public edges.
        """
        from understudy.core.schema import Attribute

        common: dict[str, Any] = {
            "name": self.column,
            "outside": self.outside,
            "label": self.label or "survey weight",
            "always_measure": measured,
            "decimals": self.decimals,
        }
        if self.edges:
            return Attribute(edges=self.edges, density="log", **common)
        return Attribute(bounds=self.bounds, heavy_tail=True, **common)

    def canonical(self) -> dict[str, object]:
        """Plain values for a fingerprint.

        Returns
        -------
        dict[str, object]
            Lists, texts and numbers.
        """
        return {
            "column": self.column,
            "bounds": [repr(float(one)) for one in self.bounds],
            "edges": [repr(float(one)) for one in self.edges],
            "origin": self.origin,
            "totals": [[one.attribute, [[level, repr(float(v))] for level, v in one.totals]] for one in self.totals],
            "public_design": self.public_design,
            "outside": self.outside,
            "sums_to": self.sums_to,
            "bins": self.bins,
            "other": [one.canonical() for one in self.other],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How the sample was drawn, as far as it is public.

    Raises
    ------
    SchemaError
        If its parts contradict each other.
    """

    sampling_strata: str = ""
    """The attribute whose levels were sampled separately."""
    clusters: str = ""
    """The column that says to which cluster (a household, an area) a row belongs. It is not read as an attribute."""
    protects: Literal["person", "cluster"] = "person"
    """The unit of privacy. With ``cluster``, a release must bound the rows of a cluster: unit_id is the column of
    ``clusters``."""
    largest_cluster: int = 0
    """The most rows that a cluster can have, if that is public."""
    design_effects: tuple[tuple[str, float], ...] = ()
    """By which factor clustering makes the variance of an answer larger, from public sources: pairs of an attribute
    and a factor; ``*`` stands for every other attribute."""
    measure_effects: bool = False
    """Whether design effects that are not declared are measured inside the budget. Needs ``largest_cluster``."""
    measured_effects: tuple[tuple[str, float], ...] = ()
    """Design effects that a release measured, as pairs of an attribute and a factor. A release writes them."""
    population: float | None = None
    """The number of people in the population, if that is public."""
    populations: tuple[tuple[str, float], ...] = ()
    """Pairs of a level of ``sampling_strata`` and the number of people in that stratum, if these are public."""
    replicate_weights: tuple[str, ...] = ()
    """Columns of replicate weights. They are ignored; ``REPLICATES`` says why."""
    sampling: Sampling | None = None
    """How people were drawn, if amplification by sampling is claimed."""

    def __post_init__(self) -> None:
        for part in ("design_effects", "measured_effects", "populations"):
            given = getattr(self, part)
            object.__setattr__(self, part, tuple(given.items() if isinstance(given, Mapping) else given))
        if isinstance(self.replicate_weights, str) or not all(isinstance(one, str) for one in self.replicate_weights):
            raise SchemaError("[design]: replicate_weights must be a list of columns.")
        object.__setattr__(self, "replicate_weights", tuple(self.replicate_weights))
        for part in ("sampling_strata", "clusters"):
            if not isinstance(getattr(self, part), str):
                raise SchemaError(f"[design]: {part} must be the name of one column.")
        if self.protects not in PROTECTS:
            raise unknown_name("protects of [design]:", str(self.protects), PROTECTS, error=SchemaError)
        if self.protects == "cluster" and not self.clusters:
            raise SchemaError('[design]: protects = "cluster" needs clusters, the column that names the cluster.')
        if type(self.largest_cluster) is not int or self.largest_cluster < 0:
            raise SchemaError("[design]: largest_cluster must be a whole number of at least 1.")
        for name, factor in (*self.design_effects, *self.measured_effects):
            _positive(factor, f"[design]: the design effect of '{name}'")
        for level, size in self.populations:
            _positive(size, f"[design]: the population of '{level}'")
        if type(self.measure_effects) is not bool:
            raise SchemaError("[design]: measure_effects must be true or false.")
        if self.measure_effects and (not self.clusters or self.largest_cluster < 2):
            raise SchemaError(
                "[design]: measure_effects needs clusters, and largest_cluster, the most rows that a cluster can have "
                "(at least 2): what one person can change depends on it."
            )
        if self.population is not None:
            _positive(self.population, "[design]: population")
        if self.sampling is not None and self.clusters:
            raise SchemaError(
                "[design.sampling]: clusters are drawn as a whole, and no amplification by sampling is claimed for "
                "them: leave [design.sampling] out."
            )
        if self.populations and not self.sampling_strata:
            raise SchemaError("[design]: populations are of sampling_strata; name that attribute.")
        whole = math.fsum(size for _, size in self.populations)
        if self.populations and self.population is not None and abs(whole - self.population) > AGREE * whole:
            raise SchemaError(
                f"[design]: the populations of the strata add up to {whole:,.6g}, and population is "
                f"{self.population:,.6g}; they contradict each other."
            )

    @property
    def size(self) -> float | None:
        """The number of people in the population, if the design says it."""
        if self.population is not None:
            return float(self.population)
        return math.fsum(size for _, size in self.populations) if self.populations else None

    def effect(self, names: tuple[str, ...]) -> float | None:
        """The largest design effect of some attributes: as declared, or else as measured.

        Parameters
        ----------
        names
            The attributes of a question.

        Returns
        -------
        float | None
            The factor; 1 without clusters, ``None`` if it is not known for all of them.
        """
        if not self.clusters:
            return 1.0
        told = dict(self.measured_effects) | dict(self.design_effects)
        found = [told.get(name, told.get(EVERYTHING)) for name in names]
        return None if any(one is None for one in found) else max([float(one) for one in found if one is not None])

    def canonical(self) -> dict[str, object]:
        """Plain values for a fingerprint.

        Returns
        -------
        dict[str, object]
            Lists, texts and numbers.
        """
        return {
            "sampling_strata": self.sampling_strata,
            "clusters": self.clusters,
            "protects": self.protects,
            "largest_cluster": self.largest_cluster,
            "design_effects": [[name, repr(float(factor))] for name, factor in self.design_effects],
            "population": None if self.population is None else repr(float(self.population)),
            "populations": [[level, repr(float(size))] for level, size in self.populations],
            "replicate_weights": list(self.replicate_weights),
            **({"measure_effects": True} if self.measure_effects else {}),
            **(
                {"measured_effects": [[name, repr(float(factor))] for name, factor in self.measured_effects]}
                if self.measured_effects
                else {}
            ),
            **({} if self.sampling is None else {"sampling": [getattr(self.sampling, key) for key in KEYS]}),
        }


def _positive(value: object, what: str) -> None:
    fitting = isinstance(value, int | float) and not isinstance(value, bool)
    if not fitting or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise SchemaError(f"{what} ({value!r}) must be a positive finite number.")


def with_weights(attributes: tuple[Attribute, ...], weight: Weight | None) -> tuple[Attribute, ...]:
    """The attributes of a schema, with those of its weights at the end if they are not listed."""
    if weight is None:
        return attributes
    names = {one.name for one in attributes}
    more = [one.attribute(measured=one is weight) for one in (weight, *weight.other) if one.column not in names]
    return (*attributes, *more)


def calibrated_column(weight: Weight | None) -> tuple[str, ...]:
    """The column of a release with weights that agree exactly with public totals; none if no totals are declared."""
    return () if weight is None or not weight.totals else (f"{weight.column}_calibrated",)


def ignored(columns: Iterable[str], design: Design | None) -> tuple[str, ...]:
    """Columns of the data that are not read as attributes: those that a schema ignores, and those of the design."""
    beside = () if design is None else (design.clusters, *design.replicate_weights)
    return tuple(dict.fromkeys((*columns, *(name for name in beside if name))))


def declared_size(schema: Schema, weight: Weight | None) -> float | None:
    """The number of people in the population, as the schema says it: by public totals of a weight, or in its design."""
    if weight is not None and weight.totals:
        return weight.totals[0].sum
    return None if schema.design is None else schema.design.size


def check_rows(schema: Schema, rows: int) -> None:
    """Refuses a public number of rows that is larger than the population is said to be."""
    size = declared_size(schema, schema.weight)
    if size is not None and rows > size * (1 + AGREE):
        raise InputError(
            f"the schema declares a population of {size:,.6g}, and the data have {rows:,} rows: a sample is no larger "
            "than its population. Correct population in [design], or the public totals."
        )


def effects_to_measure(schema: Schema) -> tuple[str, ...]:
    """The attributes whose design effect is measured inside the budget: all but weights, if none is declared."""
    design = schema.design
    if design is None or not design.measure_effects:
        return ()
    told = {name for name, _ in (*design.design_effects, *design.measured_effects)}
    return () if EVERYTHING in told else tuple(name for name in schema.names if name not in {*told, *schema.weights})


def check_survey(schema: Schema) -> None:
    """Refuses a weight or a design that does not fit the attributes."""
    weight, design = schema.weight, schema.design
    if weight is not None:
        for name in calibrated_column(weight):
            if name in {*schema.names, *schema.ignore}:
                raise SchemaError(f"column '{name}' has the name of the calibrated weights of a release; rename it.")
        for one in (weight, *weight.other):
            _check_attribute(schema[one.column], one)
        known = None if design is None else design.size
        for total in weight.totals:
            _check_levels(schema, total.attribute, dict(total.totals), f"[[weight.total]] of '{total.attribute}'")
            if known is not None and abs(total.sum - known) > AGREE * known:
                raise SchemaError(
                    f"the public totals of '{total.attribute}' add up to {total.sum:,.6g}, and the population of the "
                    f"design is {known:,.6g}; they contradict each other."
                )
            if design is not None and design.populations and design.sampling_strata == total.attribute:
                of_design = dict(design.populations)
                for level, value in total.totals:
                    if level in of_design and abs(of_design[level] - value) > AGREE * value:
                        raise SchemaError(
                            f"the public total of '{level}' is {value:,.6g}, and its population in the design is "
                            f"{of_design[level]:,.6g}; they contradict each other."
                        )
    if design is None:
        return
    if design.sampling is not None and weight is not None and any(one.adjusted for one in (weight, *weight.other)):
        raise SchemaError(
            "[design.sampling]: adjusted weights depend on everybody in the sample, and no amplification by sampling "
            'is claimed for them: declare base weights (origin = "design", sums_to = "population"), or leave '
            "[design.sampling] out."
        )
    names = {*schema.names} - ({weight.column} if weight is not None else set())
    for name, _ in (*design.design_effects, *design.measured_effects):
        if name != EVERYTHING and name not in names:
            raise unknown_name("design effect of an attribute:", name, tuple(names), error=SchemaError)
    if design.sampling_strata:
        if design.sampling_strata not in names:
            raise unknown_name("sampling_strata:", design.sampling_strata, tuple(names), error=SchemaError)
        if design.populations:
            _check_levels(schema, design.sampling_strata, dict(design.populations), "[design]: populations")


def check_unit(
    schema: Schema, *, kind: str = "replace", unit_id: str | None, rows_per_unit: int, fixed: tuple[str, ...]
) -> None:
    """Refuses a unit of privacy that contradicts what the schema says of its weight and design. Public facts only."""
    weight, design = schema.weight, schema.design
    if design is not None and design.sampling is not None:
        check_sampling(
            design.sampling, strata=design.sampling_strata, kind=kind, rows_per_unit=rows_per_unit, fixed=fixed
        )
    if weight is not None and weight.column in fixed and not weight.public_design:
        raise InputError(
            f"'{weight.column}' is a weight, and so data about a person: a unit may name it as fixed only if the "
            "design that gives it is public (public_design = true)."
        )
    if design is None or not design.clusters:
        return
    if design.protects == "cluster" and unit_id != design.clusters:
        raise InputError(
            f"the schema protects whole clusters: give the unit unit_id '{design.clusters}' and rows_per_unit, the "
            "most rows of a cluster."
        )
    if unit_id == design.clusters and design.largest_cluster > rows_per_unit:
        raise InputError(
            f"a cluster has up to {design.largest_cluster} rows by the schema, and rows_per_unit is {rows_per_unit}: "
            "rows of larger clusters would be left out, and weighted answers would be biased. Raise rows_per_unit."
        )


def _check_attribute(attribute: Attribute, weight: Weight) -> None:
    """A weight may be listed as an attribute too, as a release lists it with its found bins; both must say the same."""
    expected = weight.attribute(measured=attribute.always_measure)
    if replace(attribute.declared, label="") != replace(expected, label=""):
        raise SchemaError(
            f"column '{weight.column}' is a weight and an attribute, and the two do not say the same; leave out the "
            "[[attribute]]."
        )


def _check_levels(schema: Schema, name: str, given: Mapping[str, float], where: str) -> None:
    from understudy.core.schema import level_text

    if name not in schema.names:
        raise unknown_name(f"{where}: attribute", name, schema.names, error=SchemaError)
    attribute = schema[name]
    if not attribute.levels or attribute.missing or attribute.most_codes:
        raise SchemaError(f"{where}: totals are by an attribute with listed levels that cannot be missing.")
    levels = [level_text(level) for level in attribute.levels]
    for level in given:
        if level not in levels:
            raise unknown_name(f"{where}: level", level, levels, error=SchemaError)
    absent = [level for level in levels if level not in given]
    if absent:
        raise SchemaError(f"{where}: level '{absent[0]}' has no total; give every level one.")


def told_of_weights(*schemas: Schema) -> tuple[str, ...]:
    """What everybody must be told of the guarantee where weights of some tables were adjusted."""
    weights = [one for schema in schemas if schema.weight is not None for one in (schema.weight, *schema.weight.other)]
    return (OTHERS_FIXED,) if any(one.adjusted for one in weights) else ()


def described(schema: Schema) -> list[tuple[str, str]]:
    """What a schema says of its weight and design, for people: pairs of a fact and a text."""
    facts: list[tuple[str, str]] = []
    if schema.weight is not None:
        weight = schema.weight
        ends = weight.bounds or (weight.edges[0], weight.edges[-1])
        facts.append(("weight", f"{weight.column}, from {ends[0]:g} to {ends[1]:g}, origin {weight.origin}"))
        if weight.other:
            facts.append(("further weights", ", ".join(one.column for one in weight.other)))
        if weight.totals:
            facts.append(("calibrated to public totals of", ", ".join(one.attribute for one in weight.totals)))
        if weight.adjusted:
            facts.append(("guarantee", OTHERS_FIXED))
    if schema.design is not None:
        design = schema.design
        facts += [("sampling strata", design.sampling_strata)] if design.sampling_strata else []
        if design.clusters:
            facts.append(("clusters", f"{design.clusters}; the unit of privacy is a {design.protects}"))
            if design.measure_effects:
                facts.append(("design effects", "those that are not declared are measured inside the budget"))
        if design.sampling is not None:
            rate = design.sampling.largest_rate
            facts.append(("amplification by sampling", f"claimed: {design.sampling.scheme}, at most at rate {rate}"))
        if design.replicate_weights:
            facts.append(("replicate weights", f"{', '.join(design.replicate_weights)}: {REPLICATES}"))
    return facts
