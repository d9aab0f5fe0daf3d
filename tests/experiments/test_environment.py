import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import numpy
import pytest
import torch

import neuronal
from neuronal.experiments.environment import environment

# The name in the package is that of the function.
module = import_module("neuronal.experiments.environment")


def test_versions_and_machine_are_those_that_run():
    facts = environment()
    assert facts["torch"] == torch.__version__
    assert facts["numpy"] == numpy.__version__
    assert facts["neuronal"] == neuronal.__version__
    assert f"{torch.get_num_threads()} threads" in facts["processor"]
    assert str(Path.home()) not in " ".join(facts.values())


def test_the_commit_is_that_of_our_checkout_and_of_no_other(tmp_path, monkeypatch):
    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    package = tmp_path / "src" / "neuronal"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(neuronal, "__file__", str(package / "__init__.py"))
    monkeypatch.delenv("NEURONAL_COMMIT", raising=False)
    assert module._commit() == "unknown"
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    assert module._commit() == git("rev-parse", "HEAD")[:12]
    (package / "new.py").write_text("")
    assert module._commit() == git("rev-parse", "HEAD")[:12] + "+changes"
    elsewhere = tmp_path / "site-packages" / "neuronal"
    shutil.copytree(package, elsewhere)
    monkeypatch.setattr(neuronal, "__file__", str(elsewhere / "__init__.py"))
    assert module._commit() == "unknown"
    # A copy that was sent elsewhere may have an old history beside it.
    monkeypatch.setenv("NEURONAL_COMMIT", "abc123")
    assert module._commit() == "abc123"
    monkeypatch.setattr(neuronal, "__file__", str(package / "__init__.py"))
    assert module._commit() == "abc123"


CODE = "from neuronal.ops.one import f\n\ndef g(x):\n    return f(x) + 1\n\nclass A:\n    size: int = 3\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one file a room; digests are made anew, before and after."""
    for room in (*module.TRAINING, *module.SHOWING, "experiments"):
        (tmp_path / room).mkdir()
    (tmp_path / "nn/one.py").write_text(CODE)
    (tmp_path / "names.py").write_text("")
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    module._digest.cache_clear()
    yield tmp_path
    module._digest.cache_clear()


def digests():
    module._digest.cache_clear()
    return module.arithmetic()["code"], module.code()


SAME = {
    "docstrings": '"""A module."""\nfrom neuronal.ops.one import f\n\ndef g(x):\n    """Adds."""\n    return f(x) + 1\n\n'
    'class A:\n    """A class."""\n    size: int = 3\n    """Its size."""\n',
    "comments and formatting": CODE.replace("+ 1", "+  1  # one more").replace("\n\n", "\n\n\n"),
    "imports": CODE.replace("neuronal.ops.one", "neuronal.core.other"),
}


@pytest.mark.parametrize("code", SAME.values(), ids=SAME)
def test_the_digest_ignores(package, code):
    before = digests()
    (package / "nn/one.py").write_text(code)
    assert digests() == before


def test_the_digest_does_not_change_when_code_moves(package):
    before = digests()
    (package / "nn/one.py").rename(package / "ops/two.py")
    assert digests() == before
    head, tail = CODE.split("class A")
    (package / "ops/two.py").write_text(head)
    (package / "nn/three.py").write_text("class A" + tail)
    assert digests() == before


@pytest.mark.parametrize("change", ["f(x) + 2", "f(x) + f(1)", "f(x + 1)"])
def test_the_digest_sees_every_change_of_a_function(package, change):
    before = digests()
    (package / "nn/one.py").write_text(CODE.replace("f(x) + 1", change))
    assert all(old != new for old, new in zip(before, digests(), strict=True))


@pytest.mark.parametrize("file", ["names.py", "experiments/new.py"])
def test_what_measures_counts_for_what_is_kept_and_not_for_training(package, file):
    training, measuring = digests()
    (package / file).write_text("x = 2")
    assert digests()[0] == training
    assert digests()[1] != measuring


@pytest.mark.parametrize("file", ["report/new.py", "cli/new.py", "nn/notes.txt"])
def test_what_only_shows_counts_for_nothing(package, file):
    before = digests()
    (package / file).write_text("x = 2")
    assert digests() == before
