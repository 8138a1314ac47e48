"""The embedded engine: one machine, Arrow batches, compiled loops."""

from understudy.engines.systems.local.source import LocalSource as LocalSource
