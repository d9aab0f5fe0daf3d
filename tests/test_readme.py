"""What the README shows is what happens."""

import re

from tests.conftest import ROOT

TEXT = (ROOT / "README.md").read_text()


def test_the_python_example_runs(capsys):
    example = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    exec(example, {})
    accuracy = float(capsys.readouterr().out.split()[0])
    assert 0.3 < accuracy <= 1


def test_the_two_commands_come_first():
    first = TEXT.index("```sh\n./run ")
    assert TEXT.index("./run test") > first
    assert first < TEXT.index("##")


def test_the_table_of_neurons_is_the_table_in_the_code():
    from neuronal.nn.families import FAMILIES

    shown = re.findall(r"^\| `(\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
    assert shown[: len(FAMILIES)] == [(family.name, family.unit) for family in FAMILIES.values()]
