"""``./run`` with a pretended Python: what it installs when, and what it hands on."""

import os
import re
import shutil
import subprocess
import tomllib

import pytest

from tests.conftest import ROOT

PYTHON = """#!/bin/sh
case "$*" in
    "-c "*) exit 0 ;;
    --version) echo "Python 3.11.7" ;;
    "-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$0" "$4/bin/neuronal" ;;
    "-m pip --version") ;;
    "-m pip install "*)
        echo "$(basename "$0") $*" >> "$LOG"
        [ -z "${BROKEN-}" ] || exit 1
        cp "$0" "$(dirname "$0")/neuronal" ;;
    *) echo "$(basename "$0") $*" >> "$LOG"; [ -z "${BROKEN-}" ] || exit 1 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "a checkout"
    root.mkdir()
    for name in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root)
    (tmp_path / "fake").write_text(PYTHON)
    (tmp_path / "fake").chmod(0o755)
    return root


def call(checkout, *words, **environment):
    log = checkout.parent / "log"
    log.write_text("")
    given = {**os.environ, "PYTHON": str(checkout.parent / "fake"), "LOG": str(log), **environment}
    given.pop("NEURONAL_VENV", None)
    done = subprocess.run([checkout / "run", *words], cwd="/", env=given, capture_output=True, text=True)
    return done, log.read_text().splitlines()


def install(checkout, extra):
    words = "-m pip install -qq --disable-pip-version-check"
    return f"python {words} -c {checkout}/constraints.txt -e {checkout}[{extra}]"


def test_run_alone_installs_the_lab_once_and_starts_the_main_job(checkout):
    done, log = call(checkout)
    assert done.returncode == 0
    assert log == [install(checkout, "lab"), "neuronal compare"]
    assert "run: making" in done.stderr
    assert "run: installing neuronal[lab]" in done.stderr
    done, log = call(checkout)
    assert log == ["neuronal compare"]
    assert "installing" not in done.stderr


def test_other_words_go_to_the_command(checkout):
    _, log = call(checkout, "compare", "--name", "two words")
    assert log[-1] == "neuronal compare --name two words"
    assert call(checkout, "bench", "layers", "--rounds", "9")[1] == ["python -m benchmarks layers --rounds 9"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_change_of_requirements_installs_again(checkout, name):
    call(checkout, "neurons")
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert call(checkout, "neurons")[1] == [install(checkout, "lab"), "neuronal neurons"]
    assert call(checkout, "neurons")[1] == ["neuronal neurons"]


def test_a_failed_installation_is_tried_again(checkout):
    assert call(checkout, "neurons", BROKEN="1")[0].returncode != 0
    assert call(checkout, "neurons")[1] == [install(checkout, "lab"), "neuronal neurons"]


def test_no_python_is_said(checkout):
    done, _ = call(checkout, PYTHON="no-such-python")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, found none (looked for: no-such-python)." in done.stderr


@pytest.mark.parametrize("left", ["bin/python", "bin/neuronal"])
def test_a_broken_environment_is_made_anew(checkout, left):
    call(checkout, "neurons")
    for name in ("python", "neuronal"):
        if f"bin/{name}" != left:
            (checkout / ".venv" / "bin" / name).unlink()
    assert call(checkout, "neurons")[1] == [install(checkout, "lab"), "neuronal neurons"]


def test_cdpath_does_not_lead_astray(checkout):
    assert call(checkout, "neurons", CDPATH=str(checkout.parent))[1][-1] == "neuronal neurons"


def test_every_direct_dependency_of_dev_is_pinned():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, todo = set(), [*extras["dependencies"], *extras["optional-dependencies"]["dev"]]
    for line in todo:
        name, more = re.match(r"([\w-]+)(?:\[(.*)\])?", line).groups()
        if name == "neuronal":
            todo += [one for extra in more.split(",") for one in extras["optional-dependencies"][extra]]
        else:
            wanted.add(name)
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#")
    assert sorted(pinned) == sorted(wanted)
