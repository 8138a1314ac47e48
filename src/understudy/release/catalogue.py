"""A release described for machines: Croissant, and schema.org with DCAT, as JSON-LD beside a copy of the release.

A release folder holds what its manifest lists and nothing else, and older programs refuse any other file in it. So the
description is made by ``understudy export``: it works for every release, old ones too, and the copy in ``release/``
still passes ``understudy verify``. Everything in it is public. Licence, publisher and address are not known here; the
README says that the publisher adds them. See docs/decisions/0024-other-doors.md.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from understudy.core.schema import Attribute, level_text
from understudy.errors import InputError
from understudy.release.export import NOT_VERIFIED, README, Opened, all_attributes, write_export
from understudy.release.folder import NO_PERSON, hash_file
from understudy.release.manifest import MANIFEST, read_manifest
from understudy.release.table_release import Release

COPY = "release"
NAMES = {"croissant": "croissant.json", "dcat": "dcat.jsonld"}
KEYWORDS = ("synthetic data", "differential privacy", "official statistics")
MEDIA = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".json": "application/json",
    ".toml": "application/toml",
    ".md": "text/markdown",
}
MOST_LEVELS = 30  # of one column, in its description
STANDARD_ERRORS = (
    "Ordinary standard errors computed from the rows are too small: they ignore the noise that protects the data. "
    "understudy infer gives intervals that account for it."
)
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
DCAT_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "https://schema.org/",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def describe_release(opened: Opened, *, to: str) -> Path:
    """Write the description in one format, and the release it describes, into a new folder."""
    source = opened.source
    if source is None:
        raise InputError(f"--to {to} describes the files of a release; write the release first, then export.")
    make = {"croissant": croissant, "dcat": dcat}[to]

    def fill(target: Path) -> None:
        manifest = read_manifest(source)
        files = _copied(source, target / COPY)
        told = make(opened.release, manifest, files, verified=opened.verified)
        text = json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False)
        (target / NAMES[to]).write_text(text + "\n", encoding="utf-8")
        (target / README).write_text(_readme(to, verified=opened.verified), encoding="utf-8")

    return write_export(opened, fill)


def _copied(source: Path, target: Path) -> dict[str, dict[str, Any]]:
    """The files of a release, copied; their sizes and hashes are those of the copies."""
    target.mkdir()
    for file in sorted(source.iterdir()):
        shutil.copyfile(file, target / file.name)
    return {file.name: {"sha256": hash_file(file), "bytes": file.stat().st_size} for file in sorted(target.iterdir())}


def _readme(to: str, *, verified: bool) -> str:
    lines = [
        NO_PERSON,
        "",
        *([] if verified else [NOT_VERIFIED, ""]),
        f"{NAMES[to]} describes the release in {COPY}/ for catalogues and search engines. The release itself is",
        f"unchanged: `understudy verify {COPY}` checks it.",
        "",
        f"Before you publish it, add what understudy cannot know to {NAMES[to]}: the licence, the publisher and the",
        "address of the release.",
    ]
    return "\n".join(lines) + "\n"


def _name(release: Release) -> str:
    return f"synthetic table made by {release.provenance.method} ({release.provenance.package_version})"


def _description(release: Release, *, verified: bool) -> str:
    warned = "" if verified else f"{NOT_VERIFIED} "
    promised = " ".join(release.statement.lines())
    return f"{NO_PERSON} {warned}{promised} {STANDARD_ERRORS}"


def croissant(
    release: Release, manifest: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]], *, verified: bool
) -> dict[str, Any]:
    """The description as Croissant 1.0, with its vocabulary for responsible AI.

    Every Parquet file is a set of records; a copy in several parts has one for each part.
    """
    tables = [name for name in files if name.startswith("synthetic_") and name.endswith(".parquet")]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": _name(release),
        "description": _description(release, verified=verified),
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "version": "1.0.0",
        "datePublished": manifest["created"],
        "isLiveDataset": False,
        "citeAs": f"{_name(release)}, manifest {files[MANIFEST]['sha256']}",
        "keywords": list(KEYWORDS),
        "rai:dataCollection": (
            f"Synthetic: every row was drawn by the method {release.provenance.method} of understudy from noisy "
            "measurements or draws that differential privacy protects. No row was collected from a person."
        ),
        "rai:dataLimitations": STANDARD_ERRORS,
        "rai:personalSensitiveInformation": " ".join(release.statement.lines()),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "description": _of_file(name),
                "contentUrl": f"{COPY}/{name}",
                "contentSize": f"{about['bytes']} B",
                "encodingFormat": "application/x-parquet" if name.endswith(".parquet") else _media(name),
                "sha256": about["sha256"],
            }
            for name, about in files.items()
        ],
        "recordSet": [_records(release, name) for name in tables],
    }


def _records(release: Release, name: str) -> dict[str, Any]:
    own = name.removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": own,
        "description": f"{NO_PERSON} The rows of {name}.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{own}/{quote(attribute.name, safe='')}",
                "name": attribute.name,
                "description": _of_column(attribute),
                "dataType": _type(attribute),
                "source": {"fileObject": {"@id": name}, "extract": {"column": attribute.name}},
            }
            for attribute in all_attributes(release.schema)
        ],
    }


def _type(attribute: Attribute) -> str:
    if attribute.text_codes:
        return "sc:Text"
    if attribute.levels:
        first = attribute.levels[0]
        return "sc:Boolean" if isinstance(first, bool) else "sc:Integer" if isinstance(first, int) else "sc:Text"
    if attribute.kind == "date":
        return "sc:Date"
    return "sc:Integer" if attribute.integer else "sc:Float"


def _of_column(attribute: Attribute) -> str:
    """The label of a column and what its values can be."""
    if attribute.levels:
        texts = [level_text(level) or "(empty text)" for level in attribute.levels]
        values = f"one of {', '.join(texts[:MOST_LEVELS])}" + (", ..." if len(texts) > MOST_LEVELS else "")
    else:
        values = f"from {level_text(attribute.edges[0])} to {level_text(attribute.edges[-1])}"
    codes = "".join(f"; {level_text(code)} = {text}" for code, text in attribute.special)
    missing = "; may be missing" if attribute.missing else ""
    return f"{attribute.label + ': ' if attribute.label else ''}{values}{codes}{missing}"


def _of_file(name: str) -> str:
    if name.startswith("synthetic_"):
        return f"Synthetic rows. {NO_PERSON}"
    return {
        MANIFEST: "What is promised, how the release was made, and the hash of every file.",
        "measurements.parquet": "The noisy counts behind the rows, with the law of their noise.",
        "schema.toml": "The public description of the columns.",
    }.get(name, "Part of the release.")


def _media(name: str) -> str:
    return MEDIA.get(Path(name).suffix, "application/octet-stream")


def dcat(
    release: Release, manifest: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]], *, verified: bool
) -> dict[str, Any]:
    """The description as one node that is both a ``dcat:Dataset`` (DCAT 3) and a ``schema:Dataset``."""
    title, text = _name(release), _description(release, verified=verified)
    made = manifest["created"]
    return {
        "@context": DCAT_CONTEXT,
        "@id": f"urn:sha256:{files[MANIFEST]['sha256']}",
        "@type": ["dcat:Dataset", "schema:Dataset"],
        "dct:title": {"@value": title, "@language": "en"},
        "dct:description": {"@value": text, "@language": "en"},
        "dct:type": "synthetic data",
        "dct:issued": {"@value": made, "@type": "xsd:dateTime"},
        "dcat:keyword": list(KEYWORDS),
        "schema:name": title,
        "schema:description": text,
        "schema:keywords": list(KEYWORDS),
        "schema:datePublished": made,
        "schema:measurementTechnique": f"synthetic data with {release.statement.guarantee}",
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "rdfs:label": f"understudy {release.provenance.package_version}, method {release.provenance.method}",
        },
        "schema:variableMeasured": [
            {"@type": "schema:PropertyValue", "schema:name": one.name, "schema:description": _of_column(one)}
            for one in all_attributes(release.schema)
        ],
        "dcat:distribution": [
            {
                "@type": ["dcat:Distribution", "schema:DataDownload"],
                "dct:title": name,
                "dct:description": _of_file(name),
                "dcat:downloadURL": {"@id": f"{COPY}/{quote(name)}"},
                "dcat:mediaType": {"@id": f"https://www.iana.org/assignments/media-types/{_media(name)}"},
                "dcat:byteSize": {"@value": str(about["bytes"]), "@type": "xsd:nonNegativeInteger"},
                "schema:name": name,
                "schema:contentUrl": f"{COPY}/{quote(name)}",
                "schema:encodingFormat": _media(name),
                "spdx:checksum": {
                    "@type": "spdx:Checksum",
                    "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                    "spdx:checksumValue": about["sha256"],
                },
            }
            for name, about in files.items()
        ],
    }
