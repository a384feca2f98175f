"""The live page in a real browser."""

import os
import shutil
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"desktop": (1360, 900, "light"), "phone": (390, 844, "light"), "dark": (1360, 900, "dark")}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


@pytest.fixture
def browse(tmp_path):
    """Open pages; other hosts cannot be reached, and whatever the page complains of is noted."""
    with sync_api.sync_playwright() as playwright:
        contexts = []

        def opened(url, size="desktop"):
            width, height, scheme = SIZES[size]
            context = playwright.chromium.launch_persistent_context(
                str(tmp_path / f"profile-{len(contexts)}"),
                executable_path=CHROMIUM,
                args=FLAGS,
                viewport={"width": width, "height": height},
                color_scheme=scheme,
            )
            contexts.append(context)
            page = context.new_page()
            page.complaints = []
            page.on("console", lambda said: said.type == "error" and page.complaints.append(said.text))
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on("request", lambda asked: asked.url.startswith(url) or page.complaints.append(asked.url))
            page.goto(url, timeout=60_000)
            return page

        yield opened
        for context in contexts:
            context.close()


def curves_of(page):
    """What the charts draw."""
    found = page.evaluate(
        """() => Object.fromEntries(["error", "weights", "classes", "calibration"].map((name) =>
             [name, document.getElementById(`chart-${name}`).data.map(({name, x, y}) => ({name, x, y}))]))"""
    )
    return {chart: {trace.get("name"): trace for trace in traces} for chart, traces in found.items()}


def test_the_curves_hold_the_numbers_of_the_state(serving, stream, browse, tmp_path):
    rows, labels = stream
    with serving() as client:
        client.learn(rows, labels)
        state = client.state()
        for size in SIZES:
            page = browse(str(client.base_url), size)
            page.wait_for_selector(".pill.live", timeout=60_000)
            page.wait_for_selector("#chart-calibration .main-svg", timeout=60_000)
            drawn = curves_of(page)
            names = {"last 1,000 rows": "window_error", "all rows": "error", "majority class": "baseline_error"}
            for name, curve in names.items():
                assert drawn["error"][name]["x"] == state["curves"]["rows"]
                assert drawn["error"][name]["y"] == state["curves"][curve]
            for at, kernel in enumerate(state["kernels"]):
                assert drawn["weights"][kernel]["y"] == [weights[at] for weights in state["curves"]["kernel_weights"]]
            assert sorted(drawn["classes"][None]["x"]) == sorted(each["rows"] for each in state["classes"])
            assert drawn["calibration"]["model"]["y"] == [each["accuracy"] for each in state["calibration"]]
            assert page.inner_text("#rows") == "200"
            assert page.inner_text("#error") == f"{100 * state['error']:.2f} %"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing to the right
            assert page.complaints == []
            page.screenshot(path=tmp_path / f"page-{size}.png", full_page=True)
            assert (tmp_path / f"page-{size}.png").stat().st_size > 20_000
            keep(tmp_path / f"page-{size}.png")


def test_names_of_classes_are_text_and_not_markup(serving, browse):
    names = [
        "<b>bold</b>",
        "&lt;",
        '<a href="x">y</a>',
        "one",
        "a long name that ends in one",
        "a long name that ends in two",
    ]
    with serving() as client:
        client.learn([{"a": float(at)} for at in range(len(names))], names)
        page = browse(str(client.base_url))
        page.wait_for_selector("#chart-classes .ytick text", timeout=60_000)
        drawn = page.eval_on_selector_all(
            "#chart-classes .ytick text", "all => all.map((each) => each.textContent.trim())"
        )
        assert sorted(drawn) == sorted([*names[:4], "a long name that en…", "a long name that en…"])
        assert page.query_selector_all("#chart-classes a") == []
        assert len(page.query_selector_all("#chart-classes .bars .point")) == len(names)
        assert page.complaints == []


def test_a_row_by_hand_with_the_keyboard_alone(serving, stream, browse):
    rows, labels = stream
    with serving(token="secret") as client:
        client.headers["authorization"] = "Bearer secret"
        client.learn(rows, labels)
        page = browse(str(client.base_url))
        page.wait_for_selector("#ask-token[open]", timeout=60_000)
        page.keyboard.type("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#fields input", timeout=60_000)
        page.focus("#fields input")
        page.keyboard.type("1.5")
        page.keyboard.press("Tab")
        page.keyboard.type("1.5")
        page.keyboard.press("Enter")
        page.wait_for_selector("#label:not([hidden])", timeout=60_000)
        row = {"row": {"a": 1.5, "b": 1.5}}
        assert f"Prediction: {client.ask('/v1/predict', row)['prediction']}" in page.inner_text("#answer")
        page.focus("#y")
        page.keyboard.type("1")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Learned. That was row 201.", timeout=60_000)
        assert client.state()["rows"] == 201
        # every chart has a name and words for a screen reader
        for chart in page.query_selector_all(".chart"):
            assert chart.get_attribute("aria-label")
            assert page.inner_text(f"#{chart.get_attribute('aria-describedby')}")
        assert [said for said in page.complaints if "401" not in said] == []


def keep(path: Path) -> None:
    """Copy a screenshot where BOMKL_SCREENSHOTS says."""
    if folder := os.environ.get("BOMKL_SCREENSHOTS"):
        shutil.copy(path, folder)
