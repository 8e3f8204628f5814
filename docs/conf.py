"""The documentation site: `sphinx-build -W docs build/site` (or scripts/site, which sets itself up)."""

import inspect
import re
from pathlib import Path

import lrbtl

project = "lrbtl"
author = "lrbtl developers"
copyright = "lrbtl developers"
release = version = lrbtl.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery", "schema", "_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # blocks of text that are no code

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"  # the parameter lists tell types better
numpydoc_show_class_members = False  # the templates list members, each with a page
numpydoc_validation_checks: set[str] = set()

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1_000,
    "show_memory": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "lrbtl"
html_extra_path = ["llms.txt"]
html_static_path = ["_static"]
html_js_files = ["access.js"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "start", "paper", "evidence")}  # pages without a section
html_theme_options = {
    "show_nav_level": 1,
    "header_links_before_dropdown": 9,  # all: nothing is hidden below "More"
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "use_edit_page_button": False,
}
linkcheck_timeout = 20
linkcheck_anchors = False


def write_names(app, exception):
    """Append every public name with its signature and first line to the site's llms.txt."""
    if exception is not None or app.builder.name != "html":
        return
    lines = ["", "## Names"]
    for name in lrbtl.__all__:
        thing = getattr(lrbtl, name)
        first = (inspect.getdoc(thing) or "").split("\n")[0]
        arguments = f"({', '.join(inspect.signature(thing).parameters)})" if inspect.isfunction(thing) else ""
        lines.append(f"- `lrbtl.{name}{arguments}`: {first}")
    with open(Path(app.outdir) / "llms.txt", "a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def link_within_site(app, name, parent, content):
    """Lead the links of the files that pages include to pages of the site."""
    content[0] = re.sub(r"\]\((?:docs/)?([\w-]+)\.(?:md|rst)", lambda found: f"]({found[1].lower()}.md", content[0])


def setup(app):
    """Connect the hooks."""
    app.connect("include-read", link_within_site)
    app.connect("build-finished", write_names)
