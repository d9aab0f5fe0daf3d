"""What a machine lacks is found, and no more is called broken than neuronal compare needs."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import neuronal
from neuronal.core import doctor, folders
from neuronal.core.doctor import examine
from neuronal.core.limits import EXTRAS


@pytest.fixture
def packages(monkeypatch):
    """What importing a package gives: its version, or the error in its place."""
    found = dict.fromkeys(("torch", "numpy", *(name for extra in EXTRAS.values() for name in extra)), "1.2")

    def import_module(name):
        if isinstance(error := found.get(name, ModuleNotFoundError(name=name)), Exception):
            raise error
        return SimpleNamespace(__version__=found[name])

    monkeypatch.setattr(doctor, "import_module", import_module)
    return found


@pytest.fixture
def facts(packages, tmp_path, monkeypatch):
    """Call it with the folder of the runs; everything is there but for what a test takes away."""
    for name in ("NEURONAL_DATA", "NEURONAL_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(doctor, "browser", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(doctor, "cores", lambda: 99)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    return lambda runs=tmp_path / "runs": {fact.name: fact for fact in examine(runs)}


def advice(facts):
    return {name: fact.advice for name, fact in facts.items() if fact.advice}


def test_nothing_is_missing_and_nothing_is_left_behind(facts, tmp_path):
    found = facts()
    if doctor.sys.modules["torch"].cuda.is_available():
        found.pop("GPU")
    assert advice(found) == {}
    assert not any(fact.is_broken for fact in found.values())
    assert found["vision"].found == "huggingface_hub 1.2, timm 1.2, torchvision 1.2"
    assert "not there yet" in found["arrays"].found
    assert found["compiler"].found.startswith("Python 3")
    assert found["neuronal"].found == f"{neuronal.__version__}, {Path(neuronal.__file__).parent}"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "NEURONAL_CACHE").mkdir()
    (tmp_path / "NEURONAL_CACHE" / "a").write_bytes(bytes(20_000_000))
    assert f"{tmp_path / 'NEURONAL_CACHE'}, 0.02 GB, " in facts()["arrays"].found


@pytest.mark.parametrize(("name", "of"), [("timm", "vision"), ("scipy", "lab"), ("PIL", "lab"), ("numpy", "numpy")])
def test_a_missing_package_is_broken_where_compare_needs_it(facts, packages, name, of):
    packages[name] = ModuleNotFoundError(name=name)
    found = facts()
    source = of if of == name else f"neuronal[{of}]"
    assert advice(found).pop(of) == f"pip install '{source}'."
    assert f"{name.replace('PIL', 'pillow')} not installed" in found[of].found
    assert [fact.name for fact in found.values() if fact.is_broken] == [of] * (of != "vision")


def test_a_package_that_cannot_be_imported_is_named_with_its_reason(facts, packages):
    packages["torchvision"] = RuntimeError("operator torchvision::nms does not exist")
    packages["accelerate"] = ModuleNotFoundError(name="psutil")
    found = facts()
    reason = "torchvision cannot be imported (RuntimeError: operator torchvision::nms does not exist)"
    assert found["vision"].found.endswith(reason)
    assert advice(found)["vision"] == "Install torchvision again, in versions that fit the others."
    assert "accelerate needs psutil" in found["lab"].found
    assert [fact.name for fact in found.values() if fact.is_broken] == ["lab"]


def test_without_torch_the_rest_is_looked_at(facts, packages, monkeypatch):
    packages["torch"] = ModuleNotFoundError(name="torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    found = facts()
    assert found["torch"].is_broken
    assert "GPU" not in found
    assert not found["runs"].is_broken


def test_no_compiler(facts, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = facts()
    assert found["compiler"].found == "no no-such-compiler"
    assert "torch.compile" in advice(found)["compiler"]
    assert not found["compiler"].is_broken


@pytest.mark.parametrize("place", ["/proc/nowhere", "file/below", "file"])
def test_a_folder_that_cannot_be_written_to(facts, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    found = facts(tmp_path / place)
    assert (found["runs"].is_broken, list(advice(found))) == (True, ["runs"])
    assert f"{tmp_path / place} cannot be written to (" in found["runs"].found
    for variable in ("NEURONAL_DATA", "NEURONAL_CACHE", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / place))
    found = facts()
    assert list(advice(found)) == ["data", "arrays", "triton cache"]
    assert not any(fact.is_broken for fact in found.values())


def test_a_full_disk(facts, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=5e8))
    assert "make room" in advice(facts())["runs"]


def test_a_user_without_name_and_home(facts, monkeypatch):
    def unknown(*_):
        raise KeyError("getpwuid(): uid not found: 4242")

    def homeless(_):
        raise RuntimeError("Could not determine home directory.")

    for name in ("NEURONAL_DATA", "NEURONAL_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(doctor, "getuser", unknown)
    monkeypatch.setattr(folders.Path, "expanduser", homeless)
    found = facts()
    assert list(advice(found)) == ["data", "arrays", "torch cache", "triton cache"]
    assert "uid not found" in found["torch cache"].found
    assert not any(fact.is_broken for fact in found.values())


def test_more_threads_than_cores(facts, monkeypatch):
    torch = SimpleNamespace(get_num_threads=lambda: 3, cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(doctor, "cores", lambda: 2)
    found = facts()
    assert "2 usable of" in found["cores"].found
    assert "torch takes 3 threads" in found["cores"].found
    assert advice(found) == {"cores": "More threads than cores wait for each other: set OMP_NUM_THREADS=2."}


def test_a_gpu_with_and_without_triton_and_a_driver_without_a_gpu(facts, packages, monkeypatch):
    device = SimpleNamespace(name="H200", total_memory=141e9)
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda number: device
    )
    torch = SimpleNamespace(get_num_threads=lambda: 1, cuda=cuda, version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = facts()
    assert found["GPU"].found == "H200 (141 GB), CUDA 13.0, triton not installed"
    assert advice(found) == {"GPU": "pip install 'triton'."}
    packages["triton"] = "3.6"
    assert facts()["GPU"].found == "H200 (141 GB), CUDA 13.0, triton 3.6"
    assert not advice(facts())
    cuda.is_available = lambda: False
    assert (facts()["GPU"].found, advice(facts())) == ("none", {})
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "does not see the NVIDIA GPU" in advice(facts())["GPU"]


def test_a_browser_is_found_by_any_of_its_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.browser() is None
    file = Path(tmp_path, "chromium-browser")
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    assert doctor.browser() == str(file)
