"""Writes server/settings/kafka_settings.json: the settings of Apache Kafka 4.3.0, read from its jars.

Run it with the directory of the jars: `python tools/generate_kafka_settings.py DIRECTORY`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "tools" / "kafka_settings" / "KafkaSettings.java"
TARGET = ROOT / "src" / "coterie" / "server" / "settings" / "kafka_settings.json"


def facts(jars: Path) -> str:
    """The file's text: one setting per line, so that versions of Kafka can be compared by diff."""
    with tempfile.TemporaryDirectory() as classes:
        path = f"{jars}/*"
        subprocess.run(  # noqa: S603 - our own program
            ["javac", "-cp", path, "-d", classes, str(PROGRAM)],  # noqa: S607
            check=True,
        )
        ran = subprocess.run(  # noqa: S603
            ["java", "-cp", f"{path}:{classes}", "KafkaSettings"],  # noqa: S607
            check=True,
            capture_output=True,
            text=True,
        )
    sections = []
    for kind, section in json.loads(ran.stdout).items():
        if isinstance(section, list):
            sections.append(f"{json.dumps(kind)}: {json.dumps(section, ensure_ascii=False)}")
            continue
        lines = [
            f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False)}"
            for name, facts in section.items()
        ]
        sections.append(f"{json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(facts(Path(sys.argv[1])), encoding="utf-8")
