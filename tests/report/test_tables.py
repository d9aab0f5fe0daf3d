from dataclasses import dataclass

from neuronal.report.tables import Column, table


@dataclass(frozen=True)
class Row:
    name: str
    share: float | None


def test_rows_are_records_or_mappings():
    columns = Column("share", "share", ".1f"), Column("twice", lambda row: 2), Column("name", "name", is_text=True)
    drawn = table("title", columns, [Row("a", 0.25), Row("b", None)])
    assert drawn.rows == (("a", "0.2", "2"), ("b", "–", "2"))
    assert drawn == table("title", columns, [{"name": "a", "share": 0.25}, {"name": "b"}])
    assert (drawn.head, drawn.num_texts) == (("name", "share", "twice"), 1)
