"""Run a notebook and store its outputs, without Jupyter: a cell is Python that `exec` runs.

python -m tests.package.notebook examples/notebook.ipynb
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def outputs(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the cells of code in order, and return what a session would show below each."""
    scope: dict[str, Any] = {}
    return [
        _run("".join(cell["source"]), scope)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _run(source: str, scope: dict[str, Any]) -> list[dict[str, Any]]:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    lines = ast.parse(source)
    # A session shows the value of the last line, unless it ends with a semicolon.
    shown = isinstance(lines.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = ast.Expression(lines.body.pop().value) if shown else None
    found: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(lines, "notebook", "exec"), scope)  # noqa: S102 - our own text
        value = None if last is None else eval(compile(last, "notebook", "eval"), scope)  # noqa: S307
    if printed.getvalue():
        found.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        found.append(
            {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None}
        )
    for number in plt.get_fignums():
        stream = io.BytesIO()
        plt.figure(number).savefig(stream, format="png", dpi=80)
        picture = base64.b64encode(stream.getvalue()).decode()
        data = {"image/png": picture, "text/plain": ["<Figure>"]}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, shown) in enumerate(zip(code, outputs(notebook), strict=True), start=1):
        cell["outputs"], cell["execution_count"] = shown, number
        for each in shown:
            if "execution_count" in each:
                each["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
