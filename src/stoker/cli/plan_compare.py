"""`stoker plan compare`: cards side by side for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stoker.cli.answer import shows_unicode

Format = Literal["text", "json"]


def compare(
    cards: Annotated[
        list[str], typer.Argument(help="GPU models, such as 'H100 SXM' or '4xRTX 4090' for another number of them.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="A run file, module:callable, path.py:callable, a config.json, or the name of a torchvision model."
        ),
    ],
    gpus: Annotated[int, typer.Option(min=1, max=4096, help="Number of cards of each model.")] = 1,
    layout: Annotated[str, typer.Option(help="Such as ddp or fsdp2,tp=2; for one card none is needed.")] = "ddp",
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32, bf16, fp16, fp8, bf16-pure, fp16-pure. Default: bf16.")
    ] = None,
    checkpointing: Annotated[
        str | None, typer.Option(help="none, full, selective, selective-layer. Default: none.")
    ] = None,
    micro_batch: Annotated[
        int | None, typer.Option(min=1, help="Samples per card and forward pass. Default: 1.")
    ] = None,
    sequence: Annotated[int | None, typer.Option(min=1, help="Tokens per sample of language models.")] = None,
    image_size: Annotated[int | None, typer.Option(min=8, help="Height and width of images. Default: 224.")] = None,
    price: Annotated[list[str] | None, typer.Option(metavar="CARD=PRICE", help="Of one card, in any currency.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with charts that opens offline.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Put cards side by side for a model: does it fit, samples/s, per watt, and per price if prices are given.

    The exit code is 1 if the model fits none of them.
    """
    import json

    from stoker.errors import ExitCode
    from stoker.forecast.request import Options, read_sources
    from stoker.plan import compare as planner
    from stoker.plan.compare_text import to_html, to_text
    from stoker.report.write import check_place, write_aside

    if html is not None:
        check_place(html)
    choices = planner.parse_choices(cards, gpus, layout, price or [])
    options = Options(precision, checkpointing, micro_batch, sequence=sequence, image_size=image_size)
    sources, what = read_sources(model, options, [choice.gpu for choice in choices])
    compared = planner.fastest_first(planner.compare(lambda choice: sources(choice.gpu, choice.layout), choices))
    if format_ == "json":
        typer.echo(json.dumps([one.to_json() for one in compared], indent=2, ensure_ascii=False))
    else:
        typer.echo(to_text(compared, what, unicode=shows_unicode()), nl=False)
    if html is not None:
        write_aside(html, to_html(compared, f"Cards for {Path(model).name}", what))
        typer.echo(f"the page is {html}", err=True)
    if not any(one.samples_per_second for one in compared):
        raise typer.Exit(ExitCode.FAILED)
