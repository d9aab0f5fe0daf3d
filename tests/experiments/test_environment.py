import shutil
import subprocess
from pathlib import Path

import numpy
import torch

import neuronal
from neuronal.experiments import environment as module
from neuronal.experiments.environment import environment


def test_versions_and_machine_are_those_that_run():
    facts = environment()
    assert facts["torch"] == torch.__version__
    assert facts["numpy"] == numpy.__version__
    assert facts["neuronal"] == neuronal.__version__
    assert f"{torch.get_num_threads()} threads" in facts["processor"]


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
    monkeypatch.setenv("NEURONAL_COMMIT", "abc123")
    assert module._commit() == "abc123"
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    assert module._commit() == git("rev-parse", "HEAD")[:12]
    (package / "new.py").write_text("")
    assert module._commit() == git("rev-parse", "HEAD")[:12] + "+changes"
    elsewhere = tmp_path / "site-packages" / "neuronal"
    shutil.copytree(package, elsewhere)
    monkeypatch.setattr(neuronal, "__file__", str(elsewhere / "__init__.py"))
    assert module._commit() == "abc123"
    monkeypatch.delenv("NEURONAL_COMMIT")
    assert module._commit() == "unknown"


def test_no_path_of_this_machine_is_recorded():
    assert str(Path.home()) not in " ".join(environment().values())


def test_the_code_that_trains_is_part_of_what_digits_depend_on(tmp_path, monkeypatch):
    def digest():
        module._code.cache_clear()
        return module.arithmetic()["code"]

    before = digest()
    assert digest() == before
    file = tmp_path / "neuronal/experiments/environment.py"
    for room in module.TRAINING:
        (file.parents[1] / room).mkdir(parents=True)
    (file.parents[1] / "nn/one.py").write_text("x = 1")
    monkeypatch.setattr(module, "__file__", str(file))
    one = digest()
    assert one != before
    (file.parents[1] / "nn/one.py").write_text("x = 2")
    two = digest()
    (file.parents[1] / "nn/one.py").rename(file.parents[1] / "ops/one.py")
    assert len({one, two, digest()}) == 3
    module._code.cache_clear()
