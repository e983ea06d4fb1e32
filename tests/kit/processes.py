"""Child processes that cannot outlive the test run.

What this is: a way to start a program (a broker's JVM) so that the kernel ends it when the Python
process that started it goes away, however that process goes, SIGKILL included.
What this is not: a supervisor. Nothing is restarted, and only processes started here are ended,
each by its own pid.
Who calls it: tests/kit/kafka.py.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

# Asks the kernel for SIGKILL at the parent's death (PR_SET_PDEATHSIG), then becomes the program;
# the request survives execve, so the pid Popen knows is the program's own. Doing this in a small
# interpreter of its own, not in a preexec_fn, keeps Python code out of the window between fork
# and exec, where a lock held by another thread can block it for good. The parent may be gone
# before the request is made: hence the look at getppid.
_TETHER = """
import ctypes, os, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that asked for this one has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""

_Request = tuple[list[str], Path, "Future[subprocess.Popen[bytes]]"]


def tethered(argv: Sequence[str]) -> list[str]:
    """The command line that runs argv (its first element an absolute path) tied to this process.

    The tie is to the thread that forks: that thread must outlive the program (see spawn).
    """
    return [sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), *argv]


def spawn(argv: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start argv tied to this process, its output appended to a file; returns at once.

    The kernel counts the death of the forking THREAD as the parent's death, so a broker started
    from a worker thread would be killed when that thread is done. One thread, which lives as long
    as the process, does all the forking.
    """
    future: Future[subprocess.Popen[bytes]] = Future()
    _launcher.requests().put((tethered(argv), output, future))
    return future.result()


def end(process: subprocess.Popen[bytes], timeout: float = 30.0) -> None:
    """SIGKILL one process started here, and reap it. Ending an ended process does nothing."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(timeout)


def terminate(process: subprocess.Popen[bytes], timeout: float = 30.0) -> None:
    """SIGTERM, so that the program's own shutdown runs; SIGKILL if that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            end(process)


def alive(pid: int) -> bool:
    """Whether a process with this pid exists and is more than a zombie waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Gone, or a system without /proc: signal 0 tells the two apart.
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


class _Launcher:
    """The one thread that forks, started at first use and again in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = -1
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()

    def requests(self) -> queue.SimpleQueue[_Request]:
        with self._lock:
            if self._pid != os.getpid():
                self._requests = queue.SimpleQueue()
                self._pid = os.getpid()
                threading.Thread(
                    target=_serve, args=(self._requests,), name="kit-launcher", daemon=True
                ).start()
            return self._requests


def _serve(requests: queue.SimpleQueue[_Request]) -> None:
    while True:
        argv, output, future = requests.get()
        try:
            with output.open("ab") as sink:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    # Its own session: Ctrl-C at the terminal is for pytest, which then ends
                    # its brokers in order.
                    start_new_session=True,
                )
        except Exception as error:  # noqa: BLE001 - it is the caller's, in another thread
            future.set_exception(error)
        else:
            future.set_result(process)


_launcher = _Launcher()
