"""Imports point downwards: the table of who may open which door."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import neuronal

PACKAGE = Path(neuronal.__file__).parent
CORE = {"names", "core"}
MAY_IMPORT: dict[str, set[str]] = {
    "names": set(),
    "core": {"names"},
    "ops": CORE,
    "nn": CORE | {"ops"},
    "models": CORE | {"nn"},
    "convert": CORE | {"certify", "models", "nn"},
    "kernel": CORE,
    "data": CORE,
    "geometry": CORE | {"nn", "ops"},
    "certify": CORE | {"geometry", "nn", "ops"},
    "attacks": CORE | {"geometry", "nn"},
    "probes": CORE | {"geometry", "nn", "ops", "data"},
    "train": CORE | {"ops", "data"},
    "experiments": CORE
    | {"train", "probes", "attacks", "certify", "geometry", "kernel", "convert", "models", "nn", "ops", "data"},
    "report": CORE | {"experiments", "probes", "geometry", "convert", "train", "nn", "ops", "data"},
    "api": CORE | {"report", "experiments", "train", "nn", "data"},
    "cli": CORE
    | {"api"}
    | {"report", "experiments", "certify", "geometry", "convert", "train", "models", "nn", "data"},
    "__main__": {"cli"},
}
# Who verifies certificates shares nothing with who makes them but records, words and the core: no tracer, no bounds.
SIDES: dict[str, set[str]] = {
    "shared": {"certificate", "evidence", "statement"},
    "verifies": {
        *("check", "check_activity", "check_class", "check_layer_activity", "check_lipschitz", "check_scaling"),
        *("cloud", "cloud_rules", "exported", "globe"),
    },
    "makes": {
        *("activity", "backward", "ball", "bounds", "branch", "cuts", "degree_rules", "degrees", "intervals"),
        *("layer_activity", "lipschitz", "multipliers", "norms", "question", "radius", "scaling", "segment", "simplex"),
        *("stretch", "units"),
    },
}
MAY_USE = {"shared": CORE, "verifies": CORE, "makes": CORE | {"geometry", "nn", "ops"}}


def imports_of(file: Path) -> set[str]:
    """Everything a file imports anywhere, functions and type checks included, as dotted paths."""
    paths = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            paths |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            paths |= {f"{node.module}.{alias.name}" for alias in node.names}
    return paths


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def misplaced(files: list[Path]) -> list[str]:
    wrong = []
    for file in files:
        allowed = MAY_IMPORT[room_of(file)] | {room_of(file)}
        for package, _, name in (path.partition(".") for path in imports_of(file)):
            if package == "neuronal" and name and name.split(".")[0] not in allowed:
                wrong.append(f"{file.relative_to(PACKAGE)} imports {name}")
    return wrong


def crossed(files: list[Path]) -> list[str]:
    """Imports of ``certify`` from the other side, or from a room a side may not use."""
    wrong = []
    for file in files:
        side = next(side for side, names in SIDES.items() if file.stem in names)
        for room, _, rest in (path.removeprefix("neuronal.").partition(".") for path in imports_of(file) if ours(path)):
            allowed = (
                rest.split(".")[0] in SIDES["shared"] | SIDES[side] if room == "certify" else room in MAY_USE[side]
            )
            if not allowed:
                wrong.append(f"{file.stem} {side} certificates and imports {room}.{rest}")
    return sorted(wrong)


def ours(path: str) -> bool:
    return path.split(".")[0] == "neuronal"


def not_public(files: list[Path]) -> list[str]:
    """Imports from ``neuronal`` of names that no ``__all__`` declares."""
    wrong = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "neuronal":
                public = getattr(import_module(node.module), "__all__", ())
                wrong += [f"{file.name}: {node.module}.{a.name}" for a in node.names if a.name not in public]
            elif isinstance(node, ast.Import):
                wrong += [f"{file.name}: {a.name}" for a in node.names if a.name.split(".")[0] == "neuronal"]
    return wrong


def test_papers_import_only_what_the_library_makes_public():
    assert not not_public(list((PACKAGE.parent / "neuronal_papers").rglob("*.py")))


def test_an_import_of_a_private_name_is_found(tmp_path):
    file = tmp_path / "table.py"
    file.write_text(
        "from neuronal.data import load\nfrom neuronal.data.catalogue import label_of\nimport neuronal.nn\n"
    )
    assert not_public([file]) == ["table.py: neuronal.data.catalogue.label_of", "table.py: neuronal.nn"]


def test_the_library_imports_nothing_of_the_papers_and_benchmarks():
    above = {"neuronal_papers", "benchmarks"}
    assert not [file for file in all_files() if above & {path.split(".")[0] for path in imports_of(file)}]


def all_files() -> list[Path]:
    return [file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py"]


def test_rooms_open_only_downwards():
    assert not misplaced(all_files())


def test_every_room_is_in_the_table():
    assert {room_of(file) for file in all_files()} == set(MAY_IMPORT)


def test_who_verifies_certificates_shares_no_code_with_who_makes_them():
    assert not crossed([file for file in (PACKAGE / "certify").glob("*.py") if file.stem != "__init__"])


def test_every_file_of_certify_is_on_one_side():
    files = {file.stem for file in (PACKAGE / "certify").rglob("*.py")} - {"__init__"}
    assert sorted(files) == sorted(name for names in SIDES.values() for name in names)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("cloud", "from neuronal.certify.bounds import OWN"),
        ("cloud", "from neuronal.certify import bounds"),
        ("cloud", "import neuronal.certify.bounds"),
        ("cloud", "from neuronal.certify import certify_segment"),
        ("cloud", "from neuronal.geometry.lowering import lower"),
        ("check_scaling", "from neuronal.ops.sphere import direction"),
        ("bounds", "from neuronal.certify.cloud import Cloud"),
        ("statement", "from neuronal.certify.cloud import Cloud"),
        ("evidence", "from neuronal.certify.cuts import Cut"),
    ],
)
def test_an_import_from_the_other_side_is_found(tmp_path, file, line):
    probe = tmp_path / f"{file}.py"
    probe.write_text(f"from neuronal.certify.certificate import Certificate\nimport torch\n\ndef f():\n    {line}\n")
    assert len(crossed([probe])) == 1


def test_the_table_itself_has_no_way_back_up():
    def below(room: str, seen: tuple[str, ...]) -> None:
        assert room not in seen, " -> ".join((*seen, room))
        for other in MAY_IMPORT.get(room, ()):
            below(other, (*seen, room))

    for room in MAY_IMPORT:
        below(room, ())


def test_an_import_that_points_up_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_rooms.PACKAGE", tmp_path)
    (tmp_path / "nn").mkdir()
    file = tmp_path / "nn" / "layer.py"
    file.write_text("def f():\n    from neuronal.models.registry import create_model\n    import neuronal.names\n")
    assert misplaced([file]) == ["nn/layer.py imports models.registry.create_model"]
    file.write_text("from neuronal import models\n")
    assert misplaced([file]) == ["nn/layer.py imports models"]


def test_nobody_imports_through_the_facade():
    assert {file.name for file in all_files() if "neuronal" in imports_of(file)} <= {"environment.py"}


def test_no_room_without_a_name():
    assert not [f for f in all_files() if f.stem in {"utils", "util", "helpers", "helper", "common", "misc"}]
