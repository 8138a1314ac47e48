"""The file around the map: its policy fits its contents, and nothing inside can break out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape

import numpy as np
import pytest

from understudy.commutes.map.commute_map import Shown, embedded_json, fill, render
from understudy.commutes.map.page_arrays import MapFlows, MapPlaces
from understudy.privacy.promise.definition import PureDP, Unit
from understudy.release.statement import Statement

HOSTILE = "</script><script>alert(1)</script><!-- @@data@@ \"'&"


@pytest.fixture(scope="module")
def text():
    places = MapPlaces(ids=["a", HOSTILE], latitude=np.array([1.0, 2.0]), longitude=np.array([1.0, 2.0]))
    flows = MapFlows(origin=np.array([1]), destination=np.array([0]), jobs=np.array([2]))
    shown = Shown(
        statement=Statement(unit=Unit(), guarantee=PureDP(epsilon=1), warnings=(HOSTILE,)), method=HOSTILE, flows=flows
    )
    return render(places, [shown], rings=[], title=HOSTILE, miles=False)


def test_the_policy_names_the_hash_of_the_script_and_of_the_style(text):
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none';")
    for tag, rule in (('<script type="module">', "script-src"), ("<style>", "style-src")):
        content = text.split(tag)[1].split("</")[0] if tag == "<style>" else text.split(tag)[1].split("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_has_its_own_elements_only(text):
    assert len(re.findall(r"<script\b", text)) == 3
    assert len(re.findall(r"</script>", text)) == 3
    assert not re.search(r"""(src|href)=["'](?!data:,)""", text)
    assert "@@" not in re.sub(r"&lt;!-- @@data@@|\\u003c!-- @@data@@|@@data@@", "", text)
    assert not re.search(r"\bon[a-z]+=", text.split('<script type="module">')[0])


def test_the_description_is_json_that_survives_html(text):
    about = json.loads(text.split('id="understudy-about">')[1].split("</script>")[0])
    assert about["releases"][0]["method"] == HOSTILE
    assert json.loads(embedded_json({"x": HOSTILE})) == {"x": HOSTILE}
    assert "<" not in embedded_json(HOSTILE)


def test_the_page_without_data_is_small(text):
    assert len(text.encode()) < 150_000  # "under 2 MB plus data"


def test_a_value_that_looks_like_a_slot_is_left_alone():
    assert fill("@@a@@ @@b@@", {"a": "@@b@@", "b": "x"}) == "@@b@@ x"
