"""The façade: every public name is there, and looking at it costs nothing."""

import subprocess
import sys

import pytest

import neuronal


@pytest.mark.parametrize("name", neuronal.__all__)
def test_public_names_resolve(name):
    assert getattr(neuronal, name) is not None
    assert name in dir(neuronal)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'convrt'"):
        neuronal.convrt  # noqa: B018


@pytest.mark.parametrize("words", ["import neuronal", "import neuronal.cli.app"])
def test_importing_does_not_wait_for_torch(words):
    code = f"import sys; {words}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_command_without_the_lab_extra_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from neuronal.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert all(part in line for part in ("typer", "neuronal[lab]"))
