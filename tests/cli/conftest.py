"""A folder of each test's own, and the command called in this process."""

import pytest

from neuronal.cli.app import main
from tests.conftest import undrawn


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / "cache"))
    with undrawn():
        yield


@pytest.fixture
def own_data(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv("NEURONAL_DATA", str(folder))
    return folder


@pytest.fixture
def call(capsys):
    """Words, or one text of them, to exit code, standard output and standard error."""

    def run(*words):
        code = main(words[0].split() if len(words) == 1 else list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run
