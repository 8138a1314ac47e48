"""SIGKILL at random moments of whole runs: nothing is lost, charged twice, or left half-written."""

import importlib.util
import os
from pathlib import Path

STRESS = Path(__file__).parents[2] / "stress" / "kill_runs.py"


def test_killed_runs_are_all_finished(tmp_path):
    spec = importlib.util.spec_from_file_location("kill_runs", STRESS)
    kill_runs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill_runs)
    kills = 50 if os.environ.get("FULL") == "1" else 2
    found = kill_runs.kill_many(tmp_path, kills, seed=2026)
    assert found["charged"] >= kills  # every worker finished at least its first run
    print(found)
