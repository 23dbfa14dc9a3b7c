"""Settings of Sphinx for the site; `python tools/make_site.py` lays out the sources and builds it."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from retrograd import __version__

HERE = Path(__file__).resolve().parent

project = "Retrograd"
author = "The Retrograd authors"
project_copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "api/**",
    "examples/*.md",
    "editors/vscode/README.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
]
exclude_patterns = ["docs/notebooks/examples/**"]  # copies that the notebooks make
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

nb_execution_mode = "off"  # tools/make_site.py has executed the notebooks
nb_merge_streams = True
# A page has no kernel: it shows the explorer's page instead of its widget, and loads no script from elsewhere.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js = {}
nb_render_error_lexer = "none"  # Jupyter's lexer of tracebacks warns about our diagnostics

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# A block without a language is plain text; `console` and `python` blocks are highlighted by name.
highlight_language = "none"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"Retrograd {__version__}"
html_extra_path = [str(HERE / "extra")]
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_show_sphinx = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


#: HTML of the theme and of Sphinx -> the same with the roles and labels that a screen reader needs
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<aside class="toc-drawer no-toc">': '<aside class="toc-drawer no-toc" aria-label="On this page">',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results"></div>',
    # A block that scrolls must be reached by keys.
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    "<pre>": '<pre tabindex="0">',
}


def make_accessible(app: Sphinx, failure: Exception | None) -> None:
    """Complete the roles and labels of all pages. tests/tools/test_accessibility.py runs axe on them."""
    if failure is None:
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text("utf-8")
            for old, new in ACCESSIBLE.items():
                text = text.replace(old, new)
            page.write_text(text, "utf-8")


#: a number and its unit, alone in a cell of a table: `62.6 µs`
_QUANTITY = re.compile(r"(?:≥ )?[-−]?[\d.,]+(?:e[-+]?\d+)? [^\s\d]{1,4}")


def keep_units(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Numbers in tables stay on one line with their units, also on a narrow screen."""
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent.parent, nodes.entry) and _QUANTITY.fullmatch(text):
            text.parent.replace(text, nodes.Text(text.replace(" ", "\N{NO-BREAK SPACE}")))


def setup(app: Sphinx) -> None:
    """Highlight the languages of this project, and complete the pages."""
    app.connect("build-finished", make_accessible)
    app.connect("doctree-resolved", keep_units)
    from retrograd.observe.lexers import AssemblyLexer, JanusLexer, VladLexer

    app.add_lexer("rga", AssemblyLexer)
    app.add_lexer("janus", JanusLexer)
    app.add_lexer("vlad", VladLexer)
