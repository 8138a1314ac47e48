"""Figures of an evaluation, by name. A figure can be drawn if the evaluation has the tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from understudy.core.registry import Registry
from understudy.errors import InputError
from understudy.figures.drawing import Drawing, house_style

Frames = Mapping[str, Any]
Figure = Callable[[Frames], Drawing]
figures: Registry[Figure] = Registry("figure", "understudy.figures.evaluation")


def drawable(frames: Frames) -> tuple[str, ...]:
    """The figures whose tables exist and are not empty."""
    return tuple(name for name in figures if all(_filled(frames, need) for need in needs(name)))


def needs(name: str) -> tuple[str, ...]:
    """The tables that a figure reads."""
    wanted: tuple[str, ...] = figures[name].needs  # type: ignore[attr-defined]
    return wanted


def draws_from(*names: str) -> Callable[[Figure], Figure]:
    """Declare which tables a figure reads. Without them it refuses to draw."""

    def decorate(function: Figure) -> Figure:
        def checked(frames: Frames) -> Drawing:
            for name in names:
                if not _filled(frames, name):
                    raise InputError(
                        f"figure '{function.__name__}' needs the table '{name}', which is absent or empty."
                    )
            with house_style():
                return function(frames)

        checked.__module__, checked.__name__, checked.__doc__ = (
            function.__module__,
            function.__name__,
            function.__doc__,
        )
        checked.needs = names  # type: ignore[attr-defined]
        return checked

    return decorate


def _filled(frames: Frames, name: str) -> bool:
    return name in frames and frames[name].num_rows > 0
