#!/usr/bin/env python3
"""Prints what the built package consists of, as a CycloneDX bill of materials (JSON, version 1.5).

    python tools/sbom.py packaging/lock.txt dist/understudy-0.1.0-py3-none-any.whl > dist/understudy-0.1.0.cdx.json

It is made from the lock of the build and the wheel alone. It has no time and no random number in it: the same lock and
wheel give the same file. Packages that only build the wheel have the scope ``excluded``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any

ENTRY = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^\s\\]+)")
HASH = re.compile(r"--hash=sha256:(?P<value>[0-9a-f]{64})")
SCOPES = {"# needed by the wheel": "required", "# needed to build it": "excluded"}
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/understudy")


def components(lock: str) -> list[dict[str, Any]]:
    """The packages of a lock, in its order. A line that is not understood is an error: nothing may be left out."""
    found: list[dict[str, Any]] = []
    scope = ""
    for number, line in enumerate(lock.splitlines(), start=1):
        text = line.strip().removesuffix("\\").strip()
        if text in SCOPES:
            scope = SCOPES[text]
        elif (entry := ENTRY.match(text)) and scope:
            name, version = entry["name"], entry["version"]
            address = f"pkg:pypi/{name}@{version}"
            found.append(
                {
                    "type": "library",
                    "bom-ref": address if scope == "required" else f"{address}#build",
                    "name": name,
                    "version": version,
                    "purl": address,
                    "scope": scope,
                    "hashes": [],
                }
            )
        elif (value := HASH.fullmatch(text)) and found:
            found[-1]["hashes"].append({"alg": "SHA-256", "content": value["value"]})
        elif text and not text.startswith("#"):
            raise SystemExit(f"line {number} of the lock cannot be read: {text}")
    if not all(one["hashes"] for one in found) or not found:
        raise SystemExit("the lock lists no packages, or one without a hash.")
    return found


def about_wheel(wheel: Path) -> tuple[str, str, str]:
    """Name, version and licence of a wheel, from its own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(place).decode().splitlines()
    head = dict(line.split(": ", 1) for line in lines[: lines.index("")] if ": " in line)
    return head["Name"], head["Version"], head.get("License-Expression", "")


def bill(lock: str, wheel: Path) -> dict[str, Any]:
    """The bill of materials of a wheel that was built with a lock."""
    name, version, licence = about_wheel(wheel)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    listed = components(lock)
    own = f"pkg:pypi/{name}@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, digest + hashlib.sha256(lock.encode()).hexdigest())}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"expression": licence}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": listed,
        "dependencies": [
            {"ref": own, "dependsOn": [one["bom-ref"] for one in listed if one["scope"] == "required"]},
            *({"ref": one["bom-ref"]} for one in listed),
        ],
    }


def main() -> None:
    """Print the bill of materials of the wheel that is named."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python tools/sbom.py LOCK WHEEL")
    lock, wheel = Path(sys.argv[1]), Path(sys.argv[2])
    print(json.dumps(bill(lock.read_text(), wheel), indent=2))


if __name__ == "__main__":
    main()
