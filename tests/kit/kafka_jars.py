"""Apache Kafka's jars for tests, resolved from Maven Central once and kept outside the repository.

What this is: Maven, run on tests/kit/kafka/pom.xml, copying one Kafka version's broker and tools
into a cache directory that later runs reuse without Maven and without a network. A marker file,
written last, says a directory is whole; a file lock lets two test runs start at once.
What this is not: a build step, nor anything the library needs: nothing under src/ knows of it.
Who calls it: tests/kit/kafka.py, tests/kit/kafka_clients.py and tests/kit/plugin.py.

Environment: COTERIE_KAFKA_CACHE names the cache directory; without it the cache is
coterie/kafka below XDG_CACHE_HOME, or below .cache in the home directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEFAULT_VERSION = "4.3.0"
MINIMUM_JAVA = 17
POM = Path(__file__).parent / "kafka" / "pom.xml"

DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_MARKER = ".complete"
# A first resolution downloads some 50 MB for each version.
_MAVEN_TIMEOUT_S = 900.0
_REASON_LENGTH = 300


class KafkaUnavailable(Exception):
    """A real Apache Kafka cannot be had on this machine; the reason is one line."""

    def __init__(self, reason: str) -> None:
        one_line = " ".join(reason.split())
        if len(one_line) > _REASON_LENGTH:
            one_line = one_line[: _REASON_LENGTH - 3] + "..."
        super().__init__(one_line)
        self.reason = one_line


@dataclass(frozen=True)
class KafkaRelease:
    """What differs between Kafka lines as far as running one goes."""

    version: str

    @property
    def line(self) -> tuple[int, int]:
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    @property
    def kraft(self) -> bool:
        """KRaft from 3.3, where it left early access; ZooKeeper before."""
        return self.line >= (3, 3)

    @property
    def logging(self) -> str:
        """The Maven profile with the logging backend: Kafka went to Log4j 2 with 4.0."""
        return "log4j2" if self.line >= (4, 0) else "reload4j"


@dataclass(frozen=True)
class KafkaJars:
    """One Kafka version, ready to run."""

    release: KafkaRelease
    directory: Path
    java: str

    @property
    def classpath(self) -> str:
        """A wildcard class path: the JVM itself lists the directory."""
        return str(self.directory / "*")

    @property
    def archive(self) -> Path:
        """Where this java finds Kafka's classes parsed and checked (see kafka_archive)."""
        which = f"{Path(self.java).resolve()} {Path(self.java).stat().st_mtime_ns}"
        digest = hashlib.sha256(which.encode()).hexdigest()[:12]
        return self.directory / f"classes-{digest}.jsa"

    def command(self, *options: str) -> list[str]:
        """The beginning of a command line that runs a class of Kafka's, which is to follow."""
        shared: list[str] = []
        if self.archive.exists():
            # An archive that does not fit is passed over, and nothing is said of it on stdout.
            shared = [f"-XX:SharedArchiveFile={self.archive}", "-Xlog:disable"]
        return [self.java, *options, *shared, "-cp", self.classpath]


def resolve(version: str = DEFAULT_VERSION) -> KafkaJars:
    """One Kafka version's jars and the java to run them with, or KafkaUnavailable."""
    release = KafkaRelease(version)
    java = find_java(os.environ)
    directory = _directory(release)
    arguments = ["--file", str(POM), f"-Dkafka.version={version}"]
    arguments += ["--activate-profiles", release.logging]
    arguments += [f"{DEPENDENCY_PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
    ensure_copied(directory, arguments, version)
    return KafkaJars(release, directory, java)


def ensure_copied(directory: Path, arguments: Sequence[str], version: str) -> None:
    """Have Maven copy jars into a directory, this Kafka version's among them, unless they are there."""
    if _is_whole(directory):
        return
    mvn = shutil.which("mvn")
    if mvn is None:
        raise KafkaUnavailable("no mvn on the PATH, and the jars are not in the cache")
    try:
        # One lock for all versions: Maven's own local repository is not made for two
        # processes writing it at once. Below the root, nothing is touched without it.
        root = cache_root(os.environ)
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / ".lock"):
            if not _is_whole(directory):
                _copy_jars(mvn, arguments, version, directory)
    except OSError as error:
        raise KafkaUnavailable(f"the cache cannot be written: {error}") from error


def cache_root(environ: Mapping[str, str]) -> Path:
    """Where all Kafka versions are kept."""
    if named := environ.get("COTERIE_KAFKA_CACHE"):
        return Path(named)
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coterie" / "kafka"


def find_java(environ: Mapping[str, str]) -> str:
    """The absolute path of a java that Kafka runs on: JAVA_HOME's if set, else the PATH's."""
    java: str | None = None
    if home := environ.get("JAVA_HOME"):
        java = shutil.which(str(Path(home) / "bin" / "java"))
    if java is None:
        java = shutil.which("java", path=environ.get("PATH", ""))
    if java is None:
        raise KafkaUnavailable(f"no java on the PATH (Java {MINIMUM_JAVA} or newer is needed)")
    major = _java_major(java)
    if major < MINIMUM_JAVA:
        raise KafkaUnavailable(f"java is version {major}, and {MINIMUM_JAVA} or newer is needed")
    return str(Path(java).absolute())


def _java_major(java: str) -> int:
    try:
        run = subprocess.run(
            [java, "-version"], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KafkaUnavailable(f"java does not run: {error}") from error
    said = run.stderr + run.stdout
    # "17.0.15", "21-ea", and "1.8.0_392" from when the first number was always 1.
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if run.returncode != 0 or found is None:
        raise KafkaUnavailable(f"java -version gave no version: {said.strip() or 'no output'}")
    return int(found.group(1))


def _directory(release: KafkaRelease) -> Path:
    """One directory per version AND per pom.xml, so that a changed pom never empties the
    directory of a broker that runs from another checkout."""
    wanted = POM.read_bytes() + f"{release.version} {release.logging}".encode()
    digest = hashlib.sha256(wanted).hexdigest()[:12]
    return cache_root(os.environ) / release.version / digest


def _is_whole(directory: Path) -> bool:
    try:
        names = json.loads((directory / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(names) and all((directory / name).is_file() for name in names)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone of all processes that ask for this."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _copy_jars(mvn: str, arguments: Sequence[str], version: str, directory: Path) -> None:
    # What a stopped run left could be half a jar.
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    command = [mvn, "--batch-mode", "--quiet", "-Dstyle.color=never", *arguments]
    # With updates forced: Maven would else remember for a day that a jar could not be had.
    command += [f"-DoutputDirectory={directory}", "--update-snapshots"]
    try:
        run = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_MAVEN_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"Maven was not done in {_MAVEN_TIMEOUT_S:.0f} s") from error
    if run.returncode != 0:
        raise KafkaUnavailable(f"Maven failed: {_first_error(run.stdout)}")
    names = sorted(path.name for path in directory.glob("*.jar"))
    if not any(name.endswith(f"-{version}.jar") for name in names):
        raise KafkaUnavailable(f"Maven succeeded but copied no Kafka {version} jar")
    unfinished = directory / f"{_MARKER}.new"
    unfinished.write_text(json.dumps(names), encoding="utf-8")
    unfinished.replace(directory / _MARKER)


def _first_error(output: str) -> str:
    """The line of Maven's output that says why; the later ones are advice on switches."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in output.splitlines()]
    errors = [line for line in lines if line.startswith("[ERROR]")]
    for line in errors or lines:
        said = line.removeprefix("[ERROR]").partition(" -> [Help")[0].strip()
        if said:
            # The cause stands at the end of one very long line.
            cause = re.search(r"(Could not (find|transfer)|Cannot access) .*", said)
            return cause.group() if cause else said
    return "no output"
