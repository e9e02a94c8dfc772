"""The files around the code: they parse, and agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from trove_classifiers import classifiers as known_classifiers

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXAMPLE = ROOT / "examples" / "label-gate.yml"
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), EXAMPLE]
FORMS = sorted(
    path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
)
EXPECTED_TARGETS: set[str] = set()
"""Targets that a workflow may name before the Makefile has them."""


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text())


def triggers(workflow: dict) -> dict:
    """Return what starts a workflow; YAML takes the key `on` for the truth value."""
    return workflow[True]


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def named(path: Path) -> str:
    return path.name


def supported_pythons() -> list[str]:
    found = [re.fullmatch(r".* :: (3\.\d+)", name) for name in PROJECT["classifiers"]]
    return [match.group(1) for match in found if match]


def test_the_tests_run_on_every_python_that_the_classifiers_name():
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"][
        "matrix"
    ]
    assert matrix["python-version"] == supported_pythons()


def test_the_oldest_python_is_the_one_required():
    assert PROJECT["requires-python"] == f">={supported_pythons()[0]}"


def test_every_python_in_a_workflow_is_supported():
    for workflow in WORKFLOWS:
        for step in steps(read(workflow)):
            version = step.get("with", {}).get("python-version", "${{ matrix")
            assert version.startswith("${{ matrix") or version in supported_pythons()


def test_every_classifier_is_one_that_an_index_knows():
    assert set(PROJECT["classifiers"]) <= known_classifiers
    assert len(PROJECT["classifiers"]) == len(set(PROJECT["classifiers"]))


def test_a_package_that_says_it_is_typed_has_the_marker():
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "src" / "kspr" / "py.typed").exists()


def test_the_citation_and_the_changelog_know_the_version():
    assert read(ROOT / "CITATION.cff")["version"] == PROJECT["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=named)
def test_every_make_target_of_a_workflow_exists(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = re.findall(
        r"\bmake ([a-z-]+)", "\n".join(s.get("run", "") for s in steps(read(workflow)))
    )
    assert set(called) <= targets | EXPECTED_TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=named)
def test_a_workflow_may_read_the_code_and_nothing_else(workflow):
    content = read(workflow)
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        allowed = {"id-token": "write"} if name == "publish" else {}
        assert job.get("permissions", {}) == allowed
        assert "secrets" not in job


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=named)
def test_a_workflow_ends_in_time_and_yields_to_a_newer_run(workflow):
    content = read(workflow)
    assert content["concurrency"]["cancel-in-progress"] is (workflow.stem != "release")
    assert all("timeout-minutes" in job for job in content["jobs"].values() if "steps" in job)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=named)
def test_actions_are_pinned_and_leave_no_token_behind(workflow):
    for step in steps(read(workflow)):
        action, _, version = step.get("uses", "none@v0").partition("@")
        assert re.fullmatch(r"(release/)?v\d+(\.\d+)*|[0-9a-f]{40}", version), action
        if action == "actions/checkout":
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=named)
def test_nothing_that_a_stranger_writes_reaches_a_shell(workflow):
    """Expressions are pasted into a script as text; a title could hold a command."""
    assert not [step for step in steps(read(workflow)) if "${{" in step.get("run", "")]
    assert "pull_request_target" not in triggers(read(workflow))


def test_only_a_version_tag_publishes_and_only_what_was_built_and_tested():
    content = read(ROOT / ".github" / "workflows" / "release.yml")
    assert triggers(content) == {"push": {"tags": ["v*"]}}
    publish = content["jobs"]["publish"]
    assert "startsWith(github.ref, 'refs/tags/v')" in publish["if"]
    assert set(publish["needs"]) == {"build", "test"}
    assert publish["environment"]
    # Whoever may publish runs nothing of the repository's.
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_an_issue_form_asks_for_something_under_unique_names(form):
    content = read(form)
    assert content["name"]
    assert content["description"]
    questions = [part for part in content["body"] if part["type"] != "markdown"]
    assert any(part.get("validations", {}).get("required") for part in questions)
    assert all(part["attributes"]["label"] for part in questions)
    assert len({part["id"] for part in questions}) == len(questions)


def test_the_hooks_run_the_tools_of_make_check():
    hooks = [
        hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    entries = " ".join(hook.get("entry", "") for hook in hooks)
    makefile = (ROOT / "Makefile").read_text()
    for tool in ("ruff check", "ruff format", "mypy"):
        assert f".venv/bin/{tool}" in entries
        assert f"$(BIN)/{tool}" in makefile


@pytest.mark.parametrize("page", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    for name in re.findall(r"`((?:tests|src|docs|benchmarks)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), name


def test_dependabot_watches_actions_and_packages():
    updates = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}


def test_the_commands_of_the_example_workflow_are_those_of_its_page_and_can_be_read():
    from kspr.cli._app import app

    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    commands = [s["run"] for s in steps(read(EXAMPLE)) if s.get("run", "").startswith("kspr ")]
    assert len(commands) == 5
    for command in commands:
        app.parse_args(command.split()[1:], exit_on_error=False, print_error=False)
        # The page writes the rows to the file that a person fills in, and shows no report.
        same = command.replace("drawn.csv", "checks.csv")
        assert same in page or command == "kspr report run"
