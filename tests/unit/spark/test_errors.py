"""What is said when Spark does not start, or ends: the cause, not what stands around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.spark.errors import last_words

#: Lines of a log, the last of which is what is told of them.
LOGS = {
    "too much": [
        "Error occurred during initialization of VM",
        "Could not reserve enough space for 104857600000KB object heap",
        "Could not reserve enough space for 104857600000KB object heap",
    ],
    "no size": [
        "Invalid maximum heap size: -Xmxlots",
        "Error: Could not create the Java Virtual Machine.",
        "Error: A fatal exception has occurred. Program will exit.",
        "Invalid maximum heap size: -Xmxlots",
    ],
    "option": [
        "NOTE: Picked up JDK_JAVA_OPTIONS: -XX:-Verify",
        "Error: VM option 'Verify' is diagnostic.",
        "Error: The unlock option must precede 'Verify'.",
        "Error: Could not create the Java Virtual Machine.",
        "VM option 'Verify' is diagnostic.",
    ],
    "too little": [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
        "\tat java.base/java.util.zip.ZipFile$Source.initCEN(ZipFile.java:1677)",
        "OutOfMemoryError: Java heap space",
    ],
    "later": [
        "26/11/16 16:23:26 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)",
        "java.lang.OutOfMemoryError: Java heap space",
        "\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)",
        "26/11/16 16:23:26 ERROR TaskSetManager: Task 0 in stage 0.0 failed 1 times; aborting job",
        "OutOfMemoryError: Java heap space",
    ],
    "exception": [
        "26/11/16 15:26:19 WARN NativeCodeLoader: Unable to load native-hadoop library",
        "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'",
        "\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3200)",
        "SparkException: Could not parse Master URL: 'local[x]'",
    ],
    "unreachable": [
        "26/11/16 15:27:00 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master",
        "org.apache.spark.SparkException: Exception thrown in awaitResult:",
        "\t... 4 more",
        "Caused by: java.net.ConnectException: finishConnect(..) failed: Connection refused",
        "\tat io.netty.channel.unix.Errors.handleConnectErrno(Errors.java:131)",
        "26/11/16 15:27:20 ERROR StandaloneSchedulerBackend: All masters are unresponsive!",
        "26/11/16 15:27:21 WARN StandaloneAppClient$ClientEndpoint: Drop UnregisterApplication",
        "All masters are unresponsive!",
    ],
}


@pytest.mark.parametrize("name", LOGS)
def test_the_cause_is_told(tmp_path: Path, name: str) -> None:
    *lines, words = LOGS[name]
    file = tmp_path / "spark.log"
    file.write_text("\n".join(lines))
    assert last_words(file) == f"{words} (all of it: {file})"


def test_a_log_that_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    assert last_words(file) == ""
    file.touch()
    assert last_words(file) == last_words(None) == ""
