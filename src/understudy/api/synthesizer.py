"""``fit`` and ``sample``, for people who come from scikit-learn or SDV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.plans import DEFAULT_METHOD
from understudy.api.releases import sample, synthesize
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.promise.definition import Definition, Unit
from understudy.privacy.promise.plan import Option

if TYPE_CHECKING:
    from understudy.release import Release


class Synthesizer:
    """Make synthetic rows in two calls: ``fit`` measures under the budget once, ``sample`` draws as often as wanted.

    Each ``fit`` is a release of its own and is charged; ``sample`` costs nothing more. A method that draws its rows
    from the data themselves (``dirichlet``) cannot be sampled from later; use ``synthesize``.

    Parameters
    ----------
    schema
        The public schema.
    budget
        The guarantee of the release.
    method
        The method of synthesis.
    unit
        Who is protected: ``replace``, ``add_remove`` or a ``Unit``.
    ledger, account
        The file of the ledger and the account that pays.
    **options
        Options of the method.

    Raises
    ------
    InputError
        If the schema or the budget is not one.

    Examples
    --------
    >>> import warnings, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> maker = us.Synthesizer(small_schema(), budget=us.PureDP(epsilon=1), method="independent")
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     frame = maker.fit(make_people(500).to_pandas()).sample(1000)
    >>> len(frame), type(frame).__name__
    (1000, 'DataFrame')
    """

    def __init__(
        self,
        schema: Schema,
        *,
        budget: Definition,
        method: str = DEFAULT_METHOD,
        unit: Unit | str = "replace",
        ledger: str | Path | None = None,
        account: str | None = None,
        **options: Option,
    ) -> None:
        if not isinstance(schema, Schema):
            raise InputError("Synthesizer needs a schema; read one with understudy.read_schema.")
        if not isinstance(budget, Definition):
            raise InputError("budget must be PureDP, ApproxDP, ProbabilisticDP, ZCDP or NonPrivate.")
        self.schema = schema
        self._asked: dict[str, Any] = {"budget": budget, "method": method, "unit": unit, **options}
        self._paid: dict[str, Any] = {"ledger": ledger, "account": account}
        self._release: Release | None = None
        self._kind = "pandas"

    def fit(self, data: Any, **reading: Any) -> Synthesizer:
        """Measure the data under the budget. This is what is charged.

        Parameters
        ----------
        data
            The confidential data: a pandas or polars frame, an Arrow table, or a file.
        **reading
            How a file is written, as in ``open_source``.

        Returns
        -------
        Synthesizer
            Itself.

        Raises
        ------
        BudgetError
            If the account does not allow it. Nothing is charged then.
        """
        self._kind = _kind_of(data)
        self._release = synthesize(data, schema=self.schema, reading=reading or None, **self._asked, **self._paid)
        return self

    @property
    def release(self) -> Release:
        """The release behind the rows: its promise, its measurements, ``write`` for the folder.

        Raises
        ------
        InputError
            If ``fit`` was not called yet.
        """
        if self._release is None:
            raise InputError("nothing was measured yet; call fit(data) first.")
        return self._release

    def sample(self, rows: int) -> Any:
        """Draw rows. It touches no data and costs nothing.

        Parameters
        ----------
        rows
            How many.

        Returns
        -------
        Any
            A frame of the kind that was given to ``fit``: polars, Arrow, and pandas for all others.

        Raises
        ------
        UnsupportedError
            If the method draws its rows from the data.
        """
        drawn = sample(self.release, rows=rows)
        if self._kind == "pyarrow":
            return drawn.frame()
        return drawn.to_polars() if self._kind == "polars" else drawn.to_pandas()

    def __repr__(self) -> str:
        state = "not fitted" if self._release is None else repr(self._release)
        return f"Synthesizer({self._asked['method']}; {self._asked['budget']}; {state})"


def _kind_of(data: Any) -> str:
    package = type(data).__module__.partition(".")[0]
    return package if package in ("polars", "pyarrow") else "pandas"
