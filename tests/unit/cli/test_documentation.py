"""docs/command-line.md tells the truth: commands and options that it names exist, its plan is one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema

from coterie.cli.main import COMMANDS as ALL_COMMANDS
from tests.unit.cli.conftest import Tool

ROOT = Path(__file__).parent.parent.parent.parent
TEXT = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")

COMMANDS = {
    "groups": [
        *("list", "describe", "members", "offsets", "lag", "watch", "export"),
        *("delete", "reset", "delete-offsets", "clone", "import"),
    ],
    "topics": ["list", "describe", "groups"],
    "pipeline": ["snapshot", "ingest", "build", "report", "sql", "plan", "run", "compact"],
    "context": ["list", "show", "use", "set", "secret", "delete"],
}


def test_every_command_has_help_and_every_option_exists(nowhere: Tool) -> None:
    helps = nowhere("--help").stdout + nowhere("cluster", "--help").stdout
    for noun, verbs in COMMANDS.items():
        listed = nowhere(noun, "--help").stdout
        for verb in verbs:
            assert re.search(rf"^  {verb} ", listed, re.MULTILINE), verb
            done = nowhere(noun, verb, "--help")
            assert done.returncode == 0
            helps += done.stdout
    named = set(re.findall(r"`[^`]*?(--[a-z][a-z-]+)", TEXT)) | set(
        re.findall(r"\s(--[a-z][a-z-]+)", TEXT)
    )
    assert not {each for each in named if each not in helps}


def test_every_command_is_on_the_page() -> None:
    table = "\n".join(line for line in TEXT.splitlines() if line.startswith("| `coterie "))
    named = set(re.findall(r"`(?:coterie )?([a-z]+)", table))
    assert set(ALL_COMMANDS) <= named
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each for each in project["scripts"] if f"`{each}`" not in TEXT] == []


def test_the_plan_in_the_document_is_a_plan() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    schema = (ROOT / "docs" / "schemas" / "plan.json").read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), json.loads(schema))


def test_the_contexts_in_the_document_are_contexts(tmp_path: Path, nowhere: Tool) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert tomllib.loads(text)
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    shown = nowhere("context", "show", "prod", env={"COTERIE_CONFIG": str(path)})
    assert "sasl.password   from env PROD_PASSWORD" in shown.stdout
    assert nowhere("context", "list", "-o", "name", env={"COTERIE_CONFIG": str(path)}).stdout == (
        "prod\nstaging\n"
    )


def test_commands_load_what_they_need_and_no_more() -> None:
    """Nothing that draws or calculates is imported to print a list."""
    heavy = ("rich", "numpy", "yaml", "pyarrow", "coterie.server", "coterie.storage", "tomllib")
    code = (
        "import sys\nfrom coterie.cli.main import cli\n"
        "import coterie.cli.groups.reading, coterie.cli.groups.changing, coterie.client.admin\n"
        f"print([each for each in {heavy!r} if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
