from dataclasses import replace

import pytest

from neuronal.core.files import Damaged, write_sealed
from neuronal.experiments.record import cell_name, read, write


def test_a_record_comes_back_from_disk_as_it_was(quick_records, tmp_path):
    for record in quick_records:
        path = write(record, tmp_path)
        assert path.name == cell_name(record.recipe, record.seed)
        assert read(path) == replace(record, recipe=replace(record.recipe, seeds=(record.seed,)))


@pytest.mark.parametrize("field", ["recipe", "seed", "metrics", "epochs", "failure"])
def test_a_sealed_file_that_is_no_record_is_damaged(quick_records, tmp_path, field):
    values = quick_records[0].to_json()
    del values[field]
    write_sealed(tmp_path / "a.json", values)
    with pytest.raises(Damaged, match="not a record"):
        read(tmp_path / "a.json")
    for other in ([], None, 3, "x"):
        write_sealed(tmp_path / "a.json", other)
        with pytest.raises(Damaged, match="not a record"):
            read(tmp_path / "a.json")
