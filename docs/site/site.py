"""A hook of mkdocs: pages and files outside docs/ join the site, and links to them hold in both places."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
TAKEN_IN = (
    "README.md",
    ".github/CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "benchmarks/*.py",
    "benchmarks/results/**/*",
    "properties/**/*.yaml",
    "hyper/*.*",
    "recbole_bert4rec/**/*.py",
)
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)\s#]+)", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add what is outside docs/."""
    for pattern in TAKEN_IN:
        for path in filter(Path.is_file, sorted(ROOT.glob(pattern))):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Rewrite links between files of the repository as links between files of the site, where docs/ is the root."""
    source = page.file.src_uri
    folder = posixpath.dirname(source if (ROOT / source).is_file() else f"docs/{source}")

    def rewritten(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        if not (ROOT / target).is_file():
            return match[0]
        return match[1] + os.path.relpath(target.removeprefix("docs/"), posixpath.dirname(source) or ".")

    return LINK.sub(rewritten, markdown)


def on_page_content(html: str, page: Page, config: Any, files: Files) -> str:
    """Show the names in docstrings' roles, such as :class:`~a.b.C`, as code."""
    return re.sub(r":\w+:<code>(?:~[\w.]+\.)?([\w.]+)</code>", r"<code>\1</code>", html)
