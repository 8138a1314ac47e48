"""The log of the server: who asked what, who approved, what was answered. Append-only and hash-chained."""

from __future__ import annotations

import json
import time
from typing import Any

from understudy.privacy.ledger.store import GENESIS, Row, canonical, chain_problems, chained_hash
from understudy.serving.database.connecting import Session


def note(session: Session, event: str, **facts: object) -> None:
    """Add one entry inside a transaction: what happened is noted if and only if it happened."""
    last = session.rows("SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1")
    sequence, previous = (int(last[0][0]) + 1, str(last[0][1])) if last else (1, GENESIS)
    body = canonical({"event": event, "time": round(time.time(), 3), "sequence": sequence, **facts})
    session.run(
        "INSERT INTO log (sequence, previous, hash, body) VALUES (?, ?, ?, ?)",
        (sequence, previous, chained_hash(previous, body), body),
    )


def entries(session: Session, most: int = 1000) -> list[dict[str, Any]]:
    """The last entries, the newest first."""
    found = session.rows("SELECT body FROM log ORDER BY sequence DESC LIMIT ?", (most,))
    return [json.loads(body) for (body,) in found]


def problems(session: Session) -> list[str]:
    """What a recomputation of the whole chain finds wrong."""
    rows = session.rows("SELECT sequence, previous, hash, body FROM log ORDER BY sequence")
    return chain_problems(tuple(Row(sequence=s, previous=str(p), hash=str(h), body=str(b)) for s, p, h, b in rows))
