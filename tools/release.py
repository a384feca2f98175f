"""Prepare a checkout for a release: check the tag, and make the README's links work outside the repository.

The continuous integration service tells where the repository is (GITHUB_SERVER_URL, GITHUB_REPOSITORY) and which tag is
released (GITHUB_REF_NAME), so the package's page always points at the repository that it was built from.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)\)")


def version_of(source: str) -> str:
    """Version in the text of the package's ``_version.py``."""
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if found is None:
        raise SystemExit("src/bomkl/_version.py has no __version__.")
    return found[1]


def with_full_links(readme: str, repository: str, tag: str) -> str:
    """README whose links and pictures name the repository's files at a tag."""

    def full(match: re.Match[str]) -> str:
        picture = match[1].endswith((".svg", ".png"))
        return f"]({repository}/{'raw' if picture else 'blob'}/{tag}/{match[1]})"

    return LINK.sub(full, readme)


def with_urls(project: str, repository: str, tag: str) -> str:
    """Text of pyproject.toml with the addresses of the project."""
    urls = "\n".join(
        [
            "[project.urls]",
            f'Documentation = "{repository}/blob/{tag}/docs/index.md"',
            f'Source = "{repository}"',
            f'Issues = "{repository}/issues"',
            f'Changelog = "{repository}/blob/{tag}/CHANGELOG.md"',
            "",
            "[project.scripts]",
        ]
    )
    return project.replace("[project.scripts]", urls, 1)


def main() -> None:
    """Check the tag and rewrite README.md and pyproject.toml in place."""
    tag = os.environ["GITHUB_REF_NAME"]
    repository = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    version = version_of((ROOT / "src/bomkl/_version.py").read_text(encoding="utf-8"))
    if tag != f"v{version}":
        sys.exit(f"The tag must be v{version}, the version in src/bomkl/_version.py. Got {tag} instead.")
    for name, change in (("README.md", with_full_links), ("pyproject.toml", with_urls)):
        path = ROOT / name
        path.write_text(change(path.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")


if __name__ == "__main__":
    main()
