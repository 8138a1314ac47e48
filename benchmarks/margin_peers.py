"""One synthesis by another project, in that project's own environment.

    PEER_PYTHON benchmarks/margin_peers.py METHOD DATA.parquet DOMAIN.json EPSILON RHO ROWS OUT.parquet

It imports nothing of ours. Rows are sampled independently from the fitted model (``sample``), not rounded. Those of
``dpsynth`` are rounded, which is how it draws them, and there are as many as its noisy number of records. Prints a line
of JSON: CPU seconds without imports, and the peak memory of the process. RHO is what zero-concentrated privacy
(epsilon, delta) allows; EPSILON alone is used by the pure variant of ``mbi-pairs``, and by ``dpsynth``, which does its
own accounting.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
DELTA = 1e-9
HAIRS = 20


def opendp_table(method: str, data: Any, sizes: dict[str, int], rho: float, rows: int) -> Any:
    """OpenDP's AIM or MST on mbi; a sixteenth of the budget on one-way margins in AIM, as in its paper."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib", "honest-but-curious")
    algorithm = dp.mbi.AIM(queries=2, oneway_split=1 / 16) if method == "opendp-aim" else dp.mbi.MST()
    keys = {name: list(range(size)) for name, size in sizes.items()}
    for hairs in range(HAIRS):  # its own budget check fails for some rho by rounding in the last digit
        less = rho * (1 - hairs * 1e-9)
        context = dp.Context.compositor(
            data=pl.from_pandas(data).lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=less),
        )
        try:
            table = context.query(rho=less).contingency_table(keys=keys, algorithm=algorithm).release()
        except dp.OpenDPException as error:
            if "insufficient budget" not in str(error) or hairs == HAIRS - 1:
                raise
        else:
            break
    # It adds a level for missing values; rows drawn there are drawn again.
    drawn = [table.synthesize(rows=2 * rows, method="sample").to_pandas().dropna()]
    return drawn[0].head(rows).astype("int64")


def dpmm_table(method: str, data: Any, sizes: dict[str, int], epsilon: float, rows: int) -> Any:
    """dpmm's AIM or MST with public domain and without domain compression, on one core."""
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    kind = AIMGM if method == "dpmm-aim" else MSTGM
    model = kind(epsilon=epsilon, delta=DELTA, domain=dict(sizes), compress=False, n_jobs=1)
    model.fit(data)
    return model.generate(rows)


def dpsynth_table(method: str, data: Any, sizes: dict[str, int], epsilon: float) -> Any:
    """Google's SWIFT, MST or AIM with public domain, defaults otherwise, calibrated by its own accounting."""
    import mbi
    import numpy as np
    import pandas as pd
    from dpsynth.discrete_mechanisms import aim, discrete, mst, swift

    kinds = {"swift": swift.SWIFTConfig, "mst": mst.MSTConfig, "aim": aim.AIMConfig}
    mechanism = discrete.DiscreteConfig(mechanism=kinds[method.removeprefix("dpsynth-")]())
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
    coded = mbi.Dataset({name: data[name].to_numpy() for name in sizes}, domain)
    result = _calibrated(mechanism, epsilon)(np.random.default_rng(), coded)
    return pd.DataFrame({name: np.asarray(result.synthetic_data.data[name]) for name in sizes})


def _calibrated(mechanism: Any, epsilon: float) -> Any:
    """The largest rho whose events its own accountant finds to be (epsilon, delta).

    ``calibrate`` of the released ``dp_accounting`` begins at rho = 0, where dpsynth divides by it; so the search is
    made here, between the rho that zero-concentrated privacy allows and four times that.
    """
    import dp_accounting
    from dpsynth.discrete_mechanisms import accounting

    def spent(rho: float) -> float:
        accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
        event = mechanism.configure(zcdp_rho=rho, delta=DELTA).dp_event
        return float(accountant.compose(event).get_epsilon(DELTA))

    low = accounting.zcdp_rho(epsilon, DELTA)
    high = 4 * low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return mechanism.configure(zcdp_rho=low, delta=DELTA)


def mbi_pairs(data: Any, sizes: dict[str, int], epsilon: float, rho: float, rows: int) -> Any:
    """All two-way margins with equal noise, fitted by mbi's mirror descent; Laplace where rho is 0."""
    import numpy as np
    import pandas as pd
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import MirrorDescent

    domain = Domain(tuple(sizes), tuple(sizes.values()))
    pairs = list(itertools.combinations(sizes, 2))
    generator = np.random.default_rng()
    measured = []
    for pair in pairs:
        flat = data[pair[0]].to_numpy() * sizes[pair[1]] + data[pair[1]].to_numpy()
        counts = np.bincount(flat, minlength=sizes[pair[0]] * sizes[pair[1]]).astype(float)
        if rho > 0:
            spread = np.sqrt(len(pairs) / (2 * rho))
            noisy = counts + generator.normal(0, spread, counts.size)
        else:
            spread = np.sqrt(2) * len(pairs) / epsilon
            noisy = counts + generator.laplace(0, len(pairs) / epsilon, counts.size)
        measured.append(LinearMeasurement(noisy, pair, stddev=spread))
    model = MirrorDescent().estimate(domain, measured)
    return pd.DataFrame(model.synthetic_data(rows, "sample").to_dict())


def main() -> None:
    import pandas as pd

    method, source, domain, epsilon, rho, rows, out = sys.argv[1:]
    data = pd.read_parquet(source)
    sizes = {name: int(size) for name, size in json.loads(Path(domain).read_text(encoding="utf-8")).items()}
    if method.startswith("dpmm"):
        import dpmm.models.aim  # noqa: F401
    else:
        import mbi  # noqa: F401
    begin = time.process_time()
    if method.startswith("opendp"):
        table = opendp_table(method, data, sizes, float(rho), int(rows))
    elif method.startswith("dpsynth"):
        table = dpsynth_table(method, data, sizes, float(epsilon))
    elif method.startswith("dpmm"):
        table = dpmm_table(method, data, sizes, float(epsilon), int(rows))
    else:
        table = mbi_pairs(data, sizes, float(epsilon), float(rho), int(rows))
    seconds = time.process_time() - begin
    table[list(sizes)].astype("int64").to_parquet(out)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": seconds, "mb": memory, "rows": len(table)}))


if __name__ == "__main__":
    main()
