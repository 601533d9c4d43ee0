"""The documentation site: `python docs/build.py`. It needs no network, nor do its pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pygments.lexers import JsonLexer

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import generated_pages  # noqa: E402 - it lies beside this file
from docstrings import as_restructured_text  # noqa: E402

project = "ECA for Python"
author = "the authors of ECA for Python"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["site"]
suppress_warnings = ["ref.python"]  # two modules may use one name; the nearer is linked
html_theme = "furo"
html_title = "ECA for Python"
html_copy_source = False
html_show_copyright = False
html_last_updated_fmt = None
html_search_scorer = str(DOCS / "search_scorer.js")

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# A name in single backticks is a link where it is one of ours, and code where it is not.
default_role = "py:obj"
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = True


def setup(app: Any) -> None:
    """Write the pages that come from the code, before Sphinx looks which there are."""
    app.connect("builder-inited", lambda _: generated_pages.write(DOCS / "generated"))
    app.add_lexer("jsonc", JsonLexer)
    app.connect("autodoc-process-docstring", _process, priority=100)  # before napoleon


def _process(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = as_restructured_text(lines)
