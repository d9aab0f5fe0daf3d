"""The commands this package adds to ``neuronal``: reproduce and findings; and what ``neuronal report`` shows of results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from neuronal.cli.errors import fail, going_on, one_line_errors, whole_results
from neuronal.cli.options import AsJson, Out, whole_numbers
from neuronal.cli.screen import escape, screen
from neuronal.names import find

if TYPE_CHECKING:
    from neuronal_papers.core import Reproduction


def register(app: typer.Typer) -> None:
    """Adds the commands to the application (entry point ``neuronal.commands``)."""
    app.command()(reproduce)
    app.command()(findings)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Such as zero_bias/table1_mnist_fcn (see --list), or a paper: all of its own.")
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (minutes) or paper (its full setting).")] = "small",
    seeds: Annotated[str | None, typer.Option(help="Other seeds than the recipe's, such as 0-9.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Such as timm:vit_base_patch16_224, for zero_image; once for each.")
    ] = None,
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="With the weights timm or torchvision download.")
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Processes that divide the trainings and share the cores, or the GPU.")
    ] = 1,
    show_list: Annotated[bool, typer.Option("--list", help="Print the names of all, one per line.")] = False,
    results: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("results"),
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Run a table or figure of a paper again and write its result; what is finished is kept and not trained again."""
    from neuronal_papers.registry import reproductions

    if show_list:
        print(json.dumps(list(reproductions()), indent=1) if as_json else "\n".join(reproductions()))
        return
    if name is None:
        fail("which one? neuronal reproduce --list prints their names.", 2)
    with one_line_errors():
        from neuronal.report.terminal import Bars
        from neuronal.train import is_first_process
        from neuronal_papers.reproduce import read_result
        from neuronal_papers.reproduce import reproduce as run

        chosen = _named(name, scale)
        if len(chosen) > 1 and (seeds or model):
            raise ValueError(f"--seeds and --model go with one table or figure, got all {len(chosen)} of {name}.")
        numbers = None if seeds is None else whole_numbers("seeds", seeds)
        errors = Console(stderr=True, quiet=not is_first_process())
        answers = []
        for number, one in enumerate(chosen, 1):
            if len(chosen) > 1:
                errors.print(f"{one.name}, {number} of {len(chosen)}", highlight=False)
            with going_on(out, results), Bars(errors) as bars:
                file = run(
                    one,
                    scale,
                    runs=out,
                    results=results,
                    seeds=numbers,
                    models=model or (),
                    pretrained=pretrained,
                    workers=workers,
                    watch=bars,
                    say=lambda line: errors.print(escape(line), highlight=False),
                )
            if is_first_process():
                answers.append(read_result(file))
                if not as_json:
                    _show(one, answers[-1], file)
    if as_json and answers:
        print(json.dumps(answers[0] if "/" in name else answers, indent=1))


def _named(name: str, scale: str) -> list[Reproduction]:
    """The one of that name, or all of a paper that have that scale."""
    from neuronal_papers.core import SCALES
    from neuronal_papers.registry import PAPERS, reproductions

    if "/" in name:
        return [find(reproductions(), name, "reproduction")]
    find(dict.fromkeys(PAPERS), name, "paper")
    find(SCALES, scale, "scale")
    return [one for one in reproductions().values() if one.name.startswith(f"{name}/") and scale in one.scales]


def _show(one: Reproduction, result: Mapping[str, Any], file: Path) -> None:
    """Its tables, the outcomes of its claims, and where it is."""
    from neuronal.report import rich_table
    from neuronal_papers.pages import sentences

    console = screen()
    for table in one.tables(result):
        console.print(rich_table(table))
    for sentence in sentences(result):
        console.print(f"- {escape(sentence)}", highlight=False)
    print(f"result: {file}", flush=True)


def findings(
    paper: Annotated[str, typer.Argument(help="A paper, such as zero_bias.")],
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    out: Annotated[Path | None, typer.Option(help="File to write, figures beside it; printed if left out.")] = None,
) -> None:
    """Write the page of what holds of a paper, from the results there are."""
    with one_line_errors():
        from neuronal.core.files import make_writable, write_whole
        from neuronal_papers.pages import findings_page
        from neuronal_papers.registry import PAPERS

        find(dict.fromkeys(PAPERS), paper, "paper")
        if not results.is_dir():
            raise ValueError(f"{results} is no folder of results. neuronal reproduce writes them.")
        with whole_results(results / paper):
            page, figures = findings_page(paper, results)
        if out is None:
            print(page, end="")
            return
        make_writable(out.parent)
        for name, svg in figures.items():
            make_writable((out.parent / name).parent)
            write_whole(out.parent / name, svg)
        write_whole(out, page)
    print(f"page: {out}")


def report(folder: Path) -> tuple[str, dict[str, list[str]]]:
    """Page and sentences of the results in a folder (entry point ``neuronal.reports``)."""
    from neuronal_papers.pages import read_results, results_page, sentences

    results = read_results(folder)
    with whole_results(folder):
        return results_page(f"Results of {folder.name}", results), {r["reproduction"]: sentences(r) for r in results}
