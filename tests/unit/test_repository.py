"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MAX_LINES = 600

#: Ways to name a package registry in files that tools read. Written apart so as not to match itself.
REGISTRY = re.compile(
    r"--(?:extra-)?index"
    r"-url|--find"
    r"-links|<(?:repository|pluginRepository|mirror)>|^registry\s*=|\"resolved\":\s*\"http"
    r"|https?://[^\s\"']*(?:pypi|pythonhosted|repo\d?\.maven|npmjs|crates\.io|proxy\.golang)",
    re.MULTILINE,
)
BUILD_FILES = re.compile(
    r"\.lock$|\.toml$|\.cfg$|\.ini$|pom\.xml$|package(-lock)?\.json$|Makefile$|^tools/|^\.ci/"
    r"|go\.(mod|sum)$|\.npmrc$|requirements.*\.txt$"
)
#: Directories that exist on somebody's machine and nowhere else.
MACHINE_PATH = re.compile(r"(?<![\w.:/~$}-])/(?:home|root|Users|work)/[\w.-]+")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def text_files() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        raw = path.read_bytes()
        if b"\0" not in raw and path.suffix != ".gz":
            found.append((path.relative_to(ROOT), raw.decode("utf-8")))
    return found


def test_no_file_is_too_long_to_hold_in_ones_head() -> None:
    long = {
        str(path): text.count("\n")
        for path, text in text_files()
        if path.suffix == ".py" and text.count("\n") > MAX_LINES
    }
    assert not long


def test_no_lock_or_build_file_addresses_a_registry_by_host() -> None:
    wrong = {
        str(path): match[0]
        for path, text in text_files()
        if BUILD_FILES.search(str(path)) and (match := REGISTRY.search(text))
    }
    assert not wrong


def test_no_path_of_a_machine_is_in_the_tree() -> None:
    wrong = {
        f"{path}: {match[0]}"
        for path, text in text_files()
        if not str(path).startswith("tests/data/")
        for match in MACHINE_PATH.finditer(text)
    }
    assert not wrong


def test_the_file_map_of_the_design_has_every_module() -> None:
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    modules = [
        str(path.relative_to(ROOT / "src" / "coterie"))
        for path in (ROOT / "src" / "coterie").rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert modules
    assert not [name for name in modules if f"`{name}`" not in design]


def test_the_file_map_names_nothing_that_is_gone() -> None:
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([\w/]+\.py)` \|", design, re.MULTILINE)
    assert named
    assert not [name for name in named if not (ROOT / "src" / "coterie" / name).is_file()]


def test_no_test_module_imports_another() -> None:
    """Helpers are in modules of their own: a test module can be moved or deleted."""
    wanted = re.compile(
        r"^from tests\S*\.test_\w+ import|^from tests\S* import .*\btest_\w+", re.MULTILINE
    )
    found = [
        str(path) for path in (ROOT / "tests").rglob("*.py") if wanted.search(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize("module", ["coterie", "coterie.protocol"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    """A program that only wants the protocol does not pay for tables, loops, numbers or commands."""
    heavy = ["asyncio", "click", "numpy", "pyarrow", "pyspark", "ssl", "cryptography", "rich"]
    code = f"import {module}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_makefile_explains_itself() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "lint", "format", "typecheck", "bench", "lock", "clean"):
        assert re.search(rf"^  make {target}\s+\S", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("version", "says"),
    [("2.7.18", "Python 3.11 to 3.13 is needed"), ("3.10.4", "is 3.10.4"), ("3.14.0", "is 3.14.0")],
)
def test_a_wrong_python_gets_one_clear_line(tmp_path: Path, version: str, says: str) -> None:
    major, minor, _ = version.split(".")
    fake = tmp_path / "python3"
    fake.write_text(
        "#!/bin/sh\n"
        f'case "$2" in *version_info*) exec "{sys.executable}" -c '
        f'"import sys; sys.exit(not (3, 11) <= ({major}, {minor}) < (3, 14))" ;; '
        f"*) echo {version} ;; esac\n"
    )
    fake.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "tools" / "make-venv")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(fake)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


@pytest.mark.parametrize("required", ["", "1"])
def test_a_wrong_java_gets_one_clear_line(tmp_path: Path, required: str) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "java"
    fake.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    fake.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "tools" / "check-java")],
        env={
            "PATH": "/usr/bin:/bin",
            "JAVA_HOME": str(tmp_path),
            "COTERIE_REQUIRE_KAFKA": required,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if required else 0)
    assert len(done.stderr.splitlines()) == 1
    assert "is Java 11" in done.stderr
