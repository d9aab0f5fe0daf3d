"""What tests start ends with them, and hears signals however the tests were started."""

import os
import subprocess
import sys

from tests.conftest import ROOT, none_left_running

PATHS = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
HANDLERS = "import signal; print(*[repr(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGHUP)])"
STARTED_BY_TESTS = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {HANDLERS!r}])"


def test_processes_that_are_left_are_ended_and_their_pipes_closed():
    with none_left_running():
        left = subprocess.Popen(SLEEP, stdout=subprocess.PIPE)
        waited_for = subprocess.run([*SLEEP[:2], "print(1)"], capture_output=True)
    assert left.returncode < 0
    assert left.stdout.closed
    assert waited_for.stdout == b"1\n"


def test_under_nohup_processes_of_tests_hear_signals():
    ignoring = ["bash", "-c", "trap '' INT HUP; exec \"$@\"", "bash", sys.executable, "-c"]
    heard = [
        subprocess.run([*ignoring, code], cwd=ROOT, env=PATHS, capture_output=True, text=True, check=True).stdout
        for code in (HANDLERS, STARTED_BY_TESTS)
    ]
    assert heard[0].count("SIG_IGN") == 2
    assert "default_int_handler" in heard[1]
    assert "SIG_DFL" in heard[1]
