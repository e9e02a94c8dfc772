"""How `make docs` builds the documentation: offline, with every warning an error."""

import sys
from pathlib import Path

import kspr

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "knockoffs-spr"
author = "The knockoffs-spr developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = kspr.__version__

extensions = [
    "command_pages",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/sg_execution_times.rst", "sg_execution_times.rst"]
# A single backtick in a docstring is code.
default_role = "code"
# Two dashes are an option, not a long dash.
smartquotes = False
nitpicky = True

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Attributes and methods are listed with their own descriptions below a class.
numpydoc_show_class_members = False

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "knockoffs-spr"
html_static_path = ["_static"]
html_css_files = ["kspr.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "friendly",
    "pygments_dark_style": "monokai",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    # Training loops, two of which need packages we do not install: how-to/training-loop shows them.
    "ignore_pattern": r"^(?!plot_)",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "doc_module": ("kspr",),
    "backreferences_dir": "gallery/backreferences",
    "image_scrapers": ("matplotlib",),
    "nested_sections": False,
}
