"""Headless Chromium for the tests that look at what the package draws.

One browser per test process; ``visit`` opens a file in a page of its own and fails the test if the page asks the
network for anything or reports an error. Pages are drawn in software, so a machine without a graphics card gives the
same pixels.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox",  # a container has no user namespaces; the pages are ours
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
INSIDE = ("file:", "data:", "blob:", "about:")


@pytest.hookimpl(tryfirst=True)  # before the root's hook, which skips by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    assert program, f"needs headless Chromium, and none of {', '.join(NAMES)} is on the PATH"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        yield running
        running.close()


class Visitor:
    """Opens files: ``visit(path, fragment="dest=A", width=1280, height=800, dark=False, touch=False)``."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.asked: list[str] = []  # every address that was asked for
        self.problems: list[str] = []  # every error and warning a page reported

    def __call__(
        self,
        path: Path,
        *,
        fragment: str = "",
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        touch: bool = False,
        scale: float = 1,
    ) -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=touch,
            is_mobile=touch,
            device_scale_factor=scale,
            accept_downloads=True,
            reduced_motion="reduce",
        )
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("requestfailed", self._failed)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._heard)
        page.goto(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        return page

    def _failed(self, request: Any) -> None:
        if request.failure == "csp":  # stopped inside the page by its own policy: nothing was sent
            self.asked.remove(request.url)

    def _heard(self, message: Any) -> None:
        # Reading pixels back is slow in software, and Chromium says so; a page that is looked at does no such thing.
        if message.type in ("error", "warning") and "GPU stall due to ReadPixels" not in message.text:
            self.problems.append(message.text)

    @property
    def outside(self) -> list[str]:
        return [url for url in self.asked if not url.startswith(INSIDE)]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visitor]:
    """At the end of the test no page may have asked for anything outside its file, nor reported an error."""
    visitor = Visitor(browser)
    yield visitor
    for context in visitor.contexts:
        context.close()
    assert visitor.outside == [], "the page asked the network"
    assert visitor.problems == [], "the page reported errors"


def pixels(picture: bytes) -> NDArray[np.uint8]:
    """A PNG screenshot as an array of height, width and red, green, blue."""
    from matplotlib import image

    drawn = image.imread(io.BytesIO(picture), format="png")
    return np.rint(np.asarray(drawn)[..., :3] * 255).astype(np.uint8)


@pytest.fixture
def screenshot() -> Callable[..., NDArray[np.uint8]]:
    """``screenshot(page)`` or ``screenshot(page.locator("#map"))``: what is drawn, as an array of pixels."""
    return lambda target, **options: pixels(target.screenshot(**options))


@pytest.fixture(scope="session")
def cities() -> Any:
    """The worlds of city.py, beside this file: tests are imported one by one and cannot import each other."""
    spec = importlib.util.spec_from_file_location("browser_city", HERE / "city.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
