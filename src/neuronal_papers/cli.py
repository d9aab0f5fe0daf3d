"""The commands this package adds to ``neuronal``: reproduce and findings; and what ``neuronal report`` shows of results."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Annotated

import typer
from rich.console import Console

from neuronal.cli.errors import fail, going_on, one_line_errors, whole_results
from neuronal.cli.options import AsJson, Cluster, Out, Workers, whole_numbers
from neuronal.cli.screen import escape, screen
from neuronal.names import find


def register(app: typer.Typer) -> None:
    """Adds the commands to the application (entry point ``neuronal.commands``)."""
    app.command()(reproduce)
    app.command()(findings)


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of --list, such as zero_bias/ntk, or papers.")
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (minutes) or paper (its full setting).")] = "small",
    seeds: Annotated[str | None, typer.Option(help="Other seeds than the recipe's, such as 0-9.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Such as timm:resnet50, for zero_image; repeatable.")] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="With the weights their library downloads.")] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train whole trials side by side for so long and keep them in the results' folder trials."),
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(help="With --minutes: also put what was written into this zip file.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Print the names of all, one per line.")] = False,
    results: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("results"),
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Run a table or figure of a paper again and write its result; what is finished is kept and not trained again."""
    from neuronal_papers.core import SCALES
    from neuronal_papers.registry import package_of, reproductions

    if show_list:
        print(json.dumps(list(reproductions()), indent=1) if as_json else "\n".join(reproductions()))
        return
    if not names:
        fail("which one? neuronal reproduce --list prints their names.", 2)
    started, since = monotonic(), time()
    with one_line_errors():
        from neuronal.report import Bullets, print_blocks
        from neuronal.report.terminal import Bars
        from neuronal.train import is_first_process
        from neuronal_papers.pages import sentences
        from neuronal_papers.queue import Queue
        from neuronal_papers.reproduce import read_result
        from neuronal_papers.reproduce import reproduce as run

        chosen = []
        for name in names:
            if "/" in name:
                chosen.append(find(reproductions(), name, "reproduction"))
                find(chosen[-1].scales, scale, f"scale of {name}")
            else:
                package = package_of(name)
                find(SCALES, scale, "scale")
                chosen += [one for one in package.REPRODUCTIONS if scale in one.scales]
        if len(chosen) > 1 and (seeds or model):
            raise ValueError(f"--seeds and --model go with one table or figure, got {len(chosen)}.")
        if minutes is not None and (seeds or model or cluster or minutes < 0):
            raise ValueError("--minutes needs a number from 0 on, and goes without --seeds, --model and --cluster.")
        if archive and minutes is None:
            raise ValueError("--archive goes with --minutes.")
        numbers = None if seeds is None else whole_numbers("seeds", seeds)
        errors = Console(stderr=True, quiet=not is_first_process())

        def say(line: str) -> None:
            errors.print(escape(line), highlight=False, soft_wrap=True)

        if minutes is not None:
            queue = Queue(chosen, scale, results)
            with going_on(results, results):
                report = queue.run(minutes, started, workers or 0, say)
                for file in queue.write_results(report.at_once, report.paces):
                    print(f"result: {file}", flush=True)
                if archive:
                    say(f"{queue.archive(archive, since)} files in {archive}")
            say(report.summary(len(queue.tasks())))
            return
        answers = []
        run_one = partial(run, runs=out, results=results, models=model or (), pretrained=pretrained)
        for number, one in enumerate(chosen, 1):
            if len(chosen) > 1:
                say(f"{one.name}, {number} of {len(chosen)}")
            with going_on(out, results), Bars(errors) as bars:
                file = run_one(one, scale, seeds=numbers, workers=workers, cluster=cluster, watch=bars, say=say)
            if not is_first_process():
                continue
            answers.append(result := read_result(file))
            if not as_json:
                print_blocks(screen(), [*one.tables(result), Bullets(sentences(one, result))])
                print(f"result: {file}", flush=True)
    if as_json and answers:
        print(json.dumps(answers[0] if len(names) == 1 and "/" in names[0] else answers, indent=1))


def findings(
    paper: Annotated[str, typer.Argument(help="A paper, such as zero_bias.")],
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    out: Annotated[Path | None, typer.Option(help="File to write, figures beside it; printed if left out.")] = None,
) -> None:
    """Write the page of what holds of a paper, from the results there are."""
    with one_line_errors():
        from neuronal.core.files import make_writable, write_whole
        from neuronal_papers.pages import findings_page

        with whole_results(results / paper):
            page, figures = findings_page(paper, results)
        if out is None:
            print(page, end="")
            return
        for name, text in {**figures, out.name: page}.items():
            make_writable((out.parent / name).parent)
            write_whole(out.parent / name, text)
    print(f"page: {out}")


def report(folder: Path) -> tuple[str, dict[str, list[str]]]:
    """Page and sentences of the results in a folder (entry point ``neuronal.reports``)."""
    from neuronal_papers.pages import results_page

    with whole_results(folder):
        return results_page(folder)
