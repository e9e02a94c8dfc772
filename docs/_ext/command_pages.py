"""A page per command of `kspr`, written from the command itself when the site is built."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = "commands"


def commands() -> list[str]:
    """Return the names of all commands, in the order of the help."""
    from kspr.cli._app import app

    return [name for name in app if not name.startswith("-")]


def command_page(name: str) -> str:
    """Return the page of one command: usage, example, arguments and options."""
    from kspr.cli._app import app

    text = app[name].generate_docs(heading_level=1, usage_name=f"kspr {name}")
    text = re.sub(r"^# .*", f"# kspr {name}", text, count=1)
    text = re.sub(r"^Example: (.*)$", _example, text, flags=re.MULTILINE)
    text = re.sub(r"^\*\*(.+?)\*\*:$", r"## \1", text, flags=re.MULTILINE)
    text = text.replace("## Parameters", "## Options")
    return re.sub(r"^\* (`[^`]+`):[ ]?(.*(?:\n    .*)*)", _entry, text, flags=re.MULTILINE)


def _example(found: re.Match[str]) -> str:
    lines = "\n".join(part.strip() for part in found[1].split(";"))
    return f"```sh\n{lines}\n```"


def _entry(found: re.Match[str]) -> str:
    """Return an option as a definition: its name, then what it does."""
    words = " ".join(found[2].split())
    # The choices and the default are facts about the option: a line of their own.
    facts = re.findall(r"\*{1,2}\[(.*?)\]\*{1,2}|\[(default: [^\]]+)\]", words)
    words = re.sub(r"\s*(\*{1,2}\[.*?\]\*{1,2}|\[default: [^\]]+\])", "", words)
    shown = [one or other for one, other in facts if "default: False" not in one]
    note = f"*{'; '.join(shown)}*" if shown else ""
    described = "\n  ".join(filter(None, (words, note)))
    return f"{found[1]}\n: {described}\n"


def write_pages(app: Sphinx) -> None:
    """Write what has changed, and remove pages of commands that are gone."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    pages = {folder / f"{name}.md": command_page(name) for name in commands()}
    for path in set(folder.glob("*.md")) - set(pages):
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
