"""Write docs/inference-table.md from what each method says of itself."""

from __future__ import annotations

from pathlib import Path

from understudy.inference.validity import table_text
from understudy.synth.shared.method import synthesizers

if __name__ == "__main__":
    page = Path(__file__).parent / "inference-table.md"
    page.write_text(table_text(synthesizers.names()), encoding="utf-8")
