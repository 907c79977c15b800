"""A headless chromium that opens pages from disk and forgives no console message."""

import shutil
from pathlib import Path

import pytest

SCREENSHOTS = Path(__file__).parent / "screenshots"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is missing: pip install selenium"
    )
    chrome = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chrome or not driver:
        pytest.skip("no browser here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chrome
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver)
    browser = webdriver.Chrome(options=options, service=service)
    yield browser
    browser.quit()


@pytest.fixture
def page(chromium, request):
    """The browser with its usual size and colors; a screenshot remains of each test."""
    command = chromium.execute_cdp_cmd
    command("Emulation.clearDeviceMetricsOverride", {})
    command("Emulation.setEmulatedMedia", {"features": []})
    chromium.get_log("browser")
    yield chromium
    SCREENSHOTS.mkdir(exist_ok=True)
    chromium.save_screenshot(str(SCREENSHOTS / f"{request.node.name}.png"))
    assert chromium.get_log("browser") == []
