"""The same noise each time a test runs, so that a test that passed does not fail by chance.

A release draws its noise from the operating system, and twelve thousand tests with a little luck in each would fail
somewhere in most runs. Here each test begins with noise of its own, of the same laws, that follows from its name. Tests
that are about the operating system's noise keep it, and so does everything with PROVE=1 (``make prove``), where a
failure by chance is a finding. Commands that run as processes of their own keep it too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest

# Here the noise of the operating system is what is tested; false alarms have a stated and tiny probability there.
NOISE_ITSELF = ("tests/statistical/", "tests/unit/privacy/", "src/understudy/privacy/")


class Repeatable:
    """Where noise comes from in this process: ``begin`` starts it anew for a test."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._begun = 0
        self._noise: object | None = None

    def begin(self, test: str) -> None:
        fresh = os.environ.get("PROVE") == "1" or test.startswith(NOISE_ITSELF)
        self._name, self._begun, self._noise = None if fresh else test, 0, None

    def _next_digest(self) -> bytes | None:
        """Another one at each call, the same ones whenever the test is run; None for fresh noise."""
        if self._name is None:
            return None
        self._begun += 1
        return hashlib.sha256(f"{self._name} {self._begun}".encode()).digest()

    def _stream(self):
        from understudy.privacy.randomness.streams import SeededStream

        if self._name is not None and self._noise is None:
            self._noise = SeededStream(int.from_bytes(self._next_digest()[:8], "big"))
        return self._noise

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this is open, noise and keys of releases follow from the test that runs."""
        from understudy.privacy.randomness import draws, sampler_health, streams

        # Looks at the operating system's noise once per process; the first test of a process would draw more otherwise.
        sampler_health.require_healthy_samplers()
        laplace, gaussian, noisy_max = streams._laplace, streams._gaussian, streams._noisy_max
        make_key_stream, make_generator = draws.KeyedStream.__init__, np.random.default_rng

        def seeded_laplace(scale):
            if (stream := self._stream()) is None:
                return laplace(scale)
            return lambda zeros: stream.discrete_laplace(Fraction(scale), len(zeros)).tolist()

        def seeded_gaussian(scale):
            if (stream := self._stream()) is None:
                return gaussian(scale)
            return lambda zeros: stream.discrete_gaussian(Fraction(scale), len(zeros)).tolist()

        def seeded_noisy_max(scale, law):
            if (stream := self._stream()) is None:
                return noisy_max(scale, law)
            return lambda scores: stream.noisy_argmax(scores, Fraction(scale), law)

        def seeded_key_stream(made, *, key=None):
            digest = self._next_digest() if key is None else None
            make_key_stream(made, key=digest or key)
            made.secure = key is None

        def seeded_generator(seed=None):
            digest = self._next_digest() if seed is None else None
            return make_generator(int.from_bytes(digest, "big") if digest else seed)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streams, "_laplace", seeded_laplace)
            patch.setattr(streams, "_gaussian", seeded_gaussian)
            patch.setattr(streams, "_noisy_max", seeded_noisy_max)
            patch.setattr(draws.KeyedStream, "__init__", seeded_key_stream)
            patch.setattr(np.random, "default_rng", seeded_generator)
            yield
