"""A folder is a registry: adding one file that decorates a class is all it takes to add a method or a measure.

Names are listed without importing the files (so that a file may need a heavy package); the file is imported when its
entry is asked for. Outside packages register through entry points of the same group.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Generic, TypeVar

from understudy.errors import InternalError, unknown_name

T = TypeVar("T")


@cache
def _installed(group: str) -> EntryPoints:
    """The entry points of a group, read once: this opens a file of every installed package, and a run asks often."""
    return entry_points(group=group)


class Registry(Generic[T]):
    """Entries of one kind, one per module of a package: the module's name is the entry's name.

    Parameters
    ----------
    kind
        What an entry is called in messages, such as ``method``.
    package
        The package whose modules are the entries; also the group of entry points for outside packages.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._entries: dict[str, T] = {}

    def add(self, entry: T) -> T:
        """Register a class or function: a decorator.

        Parameters
        ----------
        entry
            The class or function. Its name in the registry is its ``name``, or else the name of its module.

        Returns
        -------
        T
            The entry itself.
        """
        name = getattr(entry, "name", None) or entry.__module__.rpartition(".")[2]
        self._entries[name] = entry
        return entry

    def names(self) -> tuple[str, ...]:
        """List every known name without importing any entry.

        Returns
        -------
        tuple[str, ...]
            The names, sorted.
        """
        path = importlib.import_module(self.package).__path__
        own = {module.name for module in pkgutil.iter_modules(path)}
        own = {name for name in own if not name.startswith("_")}
        return tuple(sorted(own | set(self._entries) | {point.name for point in self._outside()}))

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            self._load(name)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self.names()  # the first test is a hundred times faster

    def _outside(self) -> EntryPoints:
        return _installed(self.package)

    def _load(self, name: str) -> None:
        if name not in self.names():
            raise unknown_name(self.kind, name, self.names())
        outside = {point.name: point for point in self._outside()}
        if name in outside:
            self._entries[name] = outside[name].load()
            return
        importlib.import_module(f"{self.package}.{name}")
        if name not in self._entries:
            raise InternalError(f"{self.package}.{name} does not register {self.kind} '{name}'.")
