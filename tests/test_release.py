"""What a release needs: one version, links that work outside the repository, files that tools read."""

import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import bomkl

ROOT = Path(__file__).parents[1]
REPOSITORY, TAG = "https://example.org/team/bomkl", "v1.2.3"

pytestmark = pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="the tools are not part of this installation")


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_written_once(release):
    source = (ROOT / "src/bomkl/_version.py").read_text(encoding="utf-8")
    assert release.version_of(source) == bomkl.__version__
    assert "version" not in project()
    assert f"## {bomkl.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_links_of_the_readme_name_the_repository(release):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    full = release.with_full_links(readme, REPOSITORY, TAG)
    links = re.findall(r"\]\(([^)\s]+)\)", full)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    assert f"{REPOSITORY}/blob/{TAG}/docs/index.md" in links


def test_pictures_are_shown_and_not_their_page(release):
    assert release.with_full_links("![a](docs/a.svg)", REPOSITORY, TAG) == f"![a]({REPOSITORY}/raw/{TAG}/docs/a.svg)"


def test_the_addresses_become_part_of_the_metadata(release):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    changed = tomllib.loads(release.with_urls(text, REPOSITORY, TAG))
    assert changed["project"]["urls"]["Source"] == REPOSITORY
    assert changed["project"]["scripts"] == project()["scripts"]


def test_a_tag_of_another_version_is_refused(release, monkeypatch):
    monkeypatch.setenv("GITHUB_REF_NAME", "v0.0.0")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "team/bomkl")
    with pytest.raises(SystemExit, match=rf"must be v{re.escape(bomkl.__version__)}.*Got v0\.0\.0"):
        release.main()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_missing_compiler_is_told_in_one_sentence(tmp_path):
    for name in ("Makefile", "pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in ("make", "sh"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    done = subprocess.run(
        ["make", "demo"], cwd=tmp_path, env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert done.stdout == "bomkl needs a C++20 compiler, and there is none. Install one, for example: apt install g++\n"
