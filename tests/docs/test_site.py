"""The pages as a static site: built by one command, complete, refused with a broken link (Y-16)."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.console import screens

from proof.terminal import recorder

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "docs/site.py"
LOADED = re.compile(r"""<(?:script|img|link)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")

pytestmark = pytest.mark.req("Y-16")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("documentation_site", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = load()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository: a front page, the pages that the site names, and a file that is linked."""
    place = tmp_path / "repository"
    for name in ("README.md", *SITE.PROJECT, "docs/README.md", "docs/tutorial.md", "docs/sdk-tutorial.md"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"# The page {name}\n")
    (place / "docs/how-to").mkdir()
    (place / "docs/how-to/begin.md").write_text("# Begin\n\n1. First\n\n   ```sh\n   true\n   ```\n")
    (place / "verifier.py").write_text("pass\n")
    return place


def test_a_pages_links_are_staged_at_their_path(repository: Path, tmp_path: Path) -> None:
    (repository / "docs/README.md").write_text("# Pages\n[a](how-to/begin.md) [all](how-to/) [it](../verifier.py)\n")
    navigation = SITE.stage(repository, tmp_path / "pages")
    assert (tmp_path / "pages/verifier.py").read_text() == "pass\n"
    assert "[all](how-to/index.md)" in (tmp_path / "pages/docs/README.md").read_text()
    assert (tmp_path / "pages/docs/how-to/index.md").read_text() == "# How to\n\n- [Begin](begin.md)\n"
    assert "\n    ```sh\n    true\n    ```" in (tmp_path / "pages/docs/how-to/begin.md").read_text()
    assert {"How to": ["docs/how-to/index.md", {"Begin": "docs/how-to/begin.md"}]} in navigation


def test_a_link_out_of_the_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_text("# Elsewhere\n")
    (repository / "README.md").write_text("# Front\n[out](../elsewhere.md)\n")
    with pytest.raises(SITE.Broken, match="is not in the repository"):
        SITE.stage(repository, tmp_path / "pages")


def test_anchors_match_those_of_the_repository() -> None:
    assert SITE.anchor("What a `yes` covers, and what not") == "what-a-yes-covers-and-what-not"


def test_pictures_have_a_page_after_the_tutorials(repository: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    navigation = SITE.stage(repository, pages)
    (pages / SITE.PICTURES).mkdir()
    for name in SITE.CAPTIONS:
        (pages / SITE.PICTURES / f"{name}-80.svg").write_text("<svg/>")
        (pages / SITE.PICTURES / f"{name}-80.txt").write_text("text")
    SITE.add_page_of_pictures(pages, navigation)
    assert navigation[2:4] == [{"Tutorials": [{"The page docs/tutorial.md": "docs/tutorial.md"},
                                              {"The page docs/sdk-tutorial.md": "docs/sdk-tutorial.md"}]},
                               {"Pictures": "docs/pictures.md"}]
    assert "![Tasks](pictures/tasks-80.svg)" in (pages / "docs/pictures.md").read_text()
    assert {path.suffix for path in (pages / SITE.PICTURES).iterdir()} == {".svg"}
    (pages / SITE.PICTURES / "tasks-80.svg").unlink()
    with pytest.raises(SITE.Broken, match=r"tasks-80\.svg"):
        SITE.add_page_of_pictures(pages, navigation)


def test_console_pictures_have_a_page_with_each_screen_on_phone_and_desktop(
        repository: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    navigation = SITE.stage(repository, pages)
    (pages / SITE.CONSOLE_PICTURES).mkdir()
    for name in SITE.CONSOLE_CAPTIONS:
        for width in SITE.WIDTHS:
            (pages / SITE.CONSOLE_PICTURES / f"{name}-{width}-light.png").write_bytes(b"png")
    SITE.add_page_of_console(pages, navigation)
    assert {"The console": "docs/console-pictures.md"} in navigation
    page = (pages / "docs/console-pictures.md").read_text()
    assert page.count("![") == 2 * len(SITE.CONSOLE_CAPTIONS)
    assert "![Policy, on a phone](console-pictures/policy-360-light.png)" in page
    (pages / SITE.CONSOLE_PICTURES / "policy-1440-light.png").unlink()
    with pytest.raises(SITE.Broken, match=r"policy-1440-light\.png"):
        SITE.add_page_of_console(pages, navigation)


def test_the_console_pictures_show_existing_screens() -> None:
    assert set(SITE.CONSOLE_CAPTIONS) <= set(screens.NAMES)
    assert {int(width) for width in SITE.WIDTHS} <= {size["width"] for size in screens.SIZES}


def test_the_pictures_are_those_that_the_terminal_tour_records() -> None:
    assert {verb.name for verb in recorder.TOUR} >= SITE.CAPTIONS.keys()


def test_versions_are_listed_newest_first_and_the_root_redirects_to_the_newest(tmp_path: Path) -> None:
    for name in ("0.2.0", "0.10.0", "0.10.0rc1", "assets", "0.11.0"):
        (tmp_path / name).mkdir()
    for name in ("0.2.0", "0.10.0", "0.10.0rc1", "assets"):
        (tmp_path / name / "index.html").write_text("page")
    SITE.add_version(tmp_path, "0.2.0")
    assert [one["version"] for one in json.loads((tmp_path / "versions.json").read_text())] == [
        "0.10.0", "0.10.0rc1", "0.2.0"]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
    for name in ("..", "latest", "1/2", ""):
        with pytest.raises(SITE.Broken, match="is not a version"):
            SITE.place_of_version(tmp_path, name)


@pytest.mark.long
@pytest.mark.needs("mkdocs")
@pytest.mark.parametrize("link", ["nowhere.md", "tutorial.md#nowhere", "nowhere/"])
def test_a_link_without_a_target_fails_the_build(repository: Path, tmp_path: Path, link: str) -> None:
    (repository / "docs/README.md").write_text(f"# Pages\n[it]({link})\n")
    script = ("import importlib.util, pathlib, sys\n"
              f"spec = importlib.util.spec_from_file_location('site_of_pages', {str(PROGRAM)!r})\n"
              "site = importlib.util.module_from_spec(spec); spec.loader.exec_module(site)\n"
              "repository, place = map(pathlib.Path, sys.argv[1:])\n"
              "try:\n    site.build(place / 'pages', site.stage(repository, place / 'pages'), place / 'site')\n"
              "except site.Broken as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-c", script, str(repository), str(tmp_path)], capture_output=True,
                          text=True, check=True)
    assert "nowhere" in done.stdout


def built(repository: Path, into: Path) -> Path:
    """Run the program on another repository and return the directory of the site."""
    script = ("import importlib.util, pathlib, sys\n"
              f"spec = importlib.util.spec_from_file_location('site_of_pages', {str(PROGRAM)!r})\n"
              "site = importlib.util.module_from_spec(spec); spec.loader.exec_module(site)\n"
              "site.REPOSITORY = pathlib.Path(sys.argv.pop(1))\n"
              "sys.exit(site.main())\n")
    done = subprocess.run([sys.executable, "-c", script, str(repository), "--into", str(into)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


@pytest.mark.long
@pytest.mark.needs("mkdocs")
def test_a_site_without_versions_is_the_directory_itself_and_has_no_menu(repository: Path, tmp_path: Path) -> None:
    site = built(repository, tmp_path / "site")
    page = (site / "docs/how-to/begin.html").read_text("utf-8")
    assert '"provider": "mike"' not in page
    assert not LOADED.search(page.replace('<link rel="canonical"', ""))
    assert not (site / "versions.json").exists()


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one version of the site with its pictures."""
    into = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, str(PROGRAM), "--into", str(into), "--version", "0.1.0", "--pictures"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


@pytest.mark.long
@pytest.mark.needs("mkdocs")
def test_the_site_has_a_search_and_loads_nothing_from_other_hosts(whole_site: Path) -> None:
    pages = list((whole_site / "0.1.0").rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        text = page.read_text("utf-8")
        assert not LOADED.search(text.replace('<link rel="canonical"', "")), page
        assert 'class="mermaid"' not in text, "its theme would load what draws it from another host"
    index = json.loads((whole_site / "0.1.0/search/search_index.json").read_text("utf-8"))
    assert any("RUNNER_RESTARTED" in one["text"] for one in index["docs"])


@pytest.mark.long
@pytest.mark.needs("mkdocs")
def test_a_version_with_pictures_has_a_menu_that_reads_the_list_of_versions(whole_site: Path) -> None:
    assert json.loads((whole_site / "versions.json").read_text())[0]["version"] == "0.1.0"
    page = (whole_site / "0.1.0/docs/pictures.html").read_text("utf-8")
    assert '"provider": "mike"' in page
    assert not LOADED.search(page)
    assert page.count("<img") == len(SITE.CAPTIONS)
    assert "interlock status" in (whole_site / "0.1.0/docs/pictures/status-80.svg").read_text("utf-8")
