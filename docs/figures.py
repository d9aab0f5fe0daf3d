"""Draws the figures of the pages in this folder: ``python docs/figures.py``."""

from pathlib import Path

from neuronal.report.explain import coupling_and_distribution, coupling_and_two_groups

COUPLINGS = (0.0, -0.2, -0.5, 0.09)


def main(folder: Path = Path(__file__).parent) -> None:
    drawings = {
        "implicit_bias_distribution": coupling_and_distribution(COUPLINGS),
        "implicit_bias_groups": coupling_and_two_groups(COUPLINGS),
    }
    for name, drawing in drawings.items():
        # Readable on dark pages too.
        svg = drawing.svg.replace("<svg ", '<svg style="background: white" ', 1)
        (folder / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
