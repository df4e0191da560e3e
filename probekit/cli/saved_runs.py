"""``probekit predict``, ``export``, ``merge`` and ``card``: what is done with saved runs."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.output import checked_default, print_json, progress_wanted, show
from probekit.cli.spread import OptionsOf, spread
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.train.saved.head import Item, TrainedHead
    from probekit.train.saved.labelling import TokenPrediction

    Label = list[str] | str | float
    Probabilities = dict[str, float] | list[dict[str, float]]

_DIGITS = 6
"""Decimals of a probability."""

_OF_FILES = OptionsOf((arguments.OwnData,), apart=("kind", "separator", "sentences", "skip"))


@spread
def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="Folder of a saved head.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="One text per line, as the head was trained: words apart by spaces, running text, "
            "or two texts apart by a TAB; - is stdin. Files of other formats (see `probekit "
            "tasks`) are read as `probekit extract` reads them, without their labels.",
        ),
    ],
    *,
    run: arguments.ModelRun,
    of_files: Annotated[Mapping[str, Any], _OF_FILES],
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens", help="Label each token of whole texts, as if it were the whole text."
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            help="With --tokens: write texts coloured by token to FILE.html; HEAD may be a folder "
            "of several saved heads, such as those of each depth.",
        ),
    ] = None,
    json: arguments.Json = False,
) -> None:
    """Label new text with a saved head: each word, each text or each pair of texts."""
    from probekit.tasks import TextOptions
    from probekit.train.saved.head import TrainedHead, file_items, line_items
    from probekit.train.saved.labelling import predict_tokens

    on_page = {} if page is None else _page_heads(head, page, tokens=tokens, json=json)
    trained = next(iter(on_page.values()), None) or TrainedHead.from_pretrained(head)
    options = TextOptions(**of_files)
    if file == "-":
        items = line_items(sys.stdin.buffer.read(), "stdin", trained, options)
    else:
        items = file_items(Path(file), trained, options)
    how: dict[str, Any] = {"progress": progress_wanted(), **vars(run)}
    if page is not None:
        said = {name: predict_tokens(own, items, **how) for name, own in on_page.items()}
        _write_page(page, f"Tokens by {head.resolve().name}", trained.labels, said)
        return
    if tokens:
        _show_tokens(items, predict_tokens(trained, items, **how), json=json)
        return
    _show_labels(trained, items, how, json=json)


def _show_labels(
    trained: "TrainedHead", items: "Sequence[Item]", how: Mapping[str, Any], *, json: bool
) -> None:
    """Print the label of each text, or of each of its words."""
    from probekit.train.saved.labelling import predict as label_texts

    if json and trained.labels:
        surely = label_texts(trained, items, probabilities=True, **how)
        print_json([_row(item, *astuple(pair)) for item, pair in zip(items, surely, strict=True)])
        return
    labels: Sequence[Label] = label_texts(trained, items, **how)
    if json:
        print_json([_row(item, label) for item, label in zip(items, labels, strict=True)])
        return
    for item, label in zip(items, labels, strict=True):
        if isinstance(label, list) and not isinstance(item, str):
            for word, tag in zip(item, label, strict=True):
                show(f"{word}\t{tag}")
            show("")
        else:
            names = ";".join(label) if isinstance(label, list) else label
            show(f"{_one_line(item)}\t{names}")


def _row(
    item: "Item", label: "Label", probabilities: "Probabilities | None" = None
) -> dict[str, Any]:
    """Return a text and its label, or a sentence's words and theirs, for a JSON line."""
    labelled: dict[str, Any] = {"labels" if isinstance(label, list) else "label": label}
    if isinstance(probabilities, list):
        labelled["probabilities"] = [_rounded(word) for word in probabilities]
    elif probabilities is not None:
        labelled["probabilities"] = _rounded(probabilities)
    if isinstance(item, list):
        return {"words": item} | labelled
    if isinstance(item, str):
        return {"text": item} | labelled
    return {"text": item[0], "text_pair": item[1]} | labelled


def _show_tokens(
    items: "Sequence[Item]", said: "Sequence[Sequence[TokenPrediction]]", *, json: bool
) -> None:
    """Print each token with its label, and its probability where the label is one class."""
    rows = [
        [{**vars(token), "probabilities": _rounded(token.probabilities)} for token in tokens]
        for tokens in said
    ]
    if json:
        texts = [item if isinstance(item, str) else list(item) for item in items]
        print_json([{"text": t, "tokens": of} for t, of in zip(texts, rows, strict=True)])
        return
    for tokens in rows:
        for token in tokens:
            label = token["label"]
            names = ";".join(label) if isinstance(label, list) else label
            of_class = isinstance(label, str)
            value = f"\t{token['probabilities'][label]:.3f}" if of_class else ""
            show(f"{token['token'].strip()}\t{names}{value}")
        show("")


def _page_heads(folder: Path, page: Path, *, tokens: bool, json: bool) -> "dict[str, TrainedHead]":
    """Return the saved head of a folder, or those below it, by name, for a page.

    Raises:
        OptionError: the page goes with other options, or cannot show these heads together.
    """
    from probekit.page.report_page import check_report
    from probekit.train.saved.folder import CONFIG, saved_below
    from probekit.train.saved.head import TrainedHead

    if not tokens:
        raise OptionError("--page shows what a head finds in each token: add --tokens.")
    if json:
        raise OptionError("--page writes a file and --json prints: give one of them.")
    check_report(page)
    below = [] if (folder / CONFIG).exists() else sorted(saved_below(folder), key=_by_number)
    folders = below or [folder]
    loaded = [TrainedHead.from_pretrained(path) for path in folders]
    for path, own in zip(folders, loaded, strict=True):
        if own.labels != loaded[0].labels:
            raise OptionError(
                f"--page shows heads of the same labels, and {path} has others than the first one: "
                "give the folder of a single head."
            )
    if not loaded[0].labels:
        raise OptionError("--page colours tokens by a probability, and this head predicts numbers.")
    return dict(zip(_short_names(folders), loaded, strict=True))


def _short_names(folders: Sequence[Path]) -> list[str]:
    """Return what tells folders of saved heads apart, else their names."""
    # last-depth0-cc3e03e6 and last-depth2-e2c9bc44 are depth0 and depth2
    parts = [path.name.split("-")[:-1] for path in folders]
    shared = set.intersection(*map(set, parts))
    names = ["-".join(part for part in own if part not in shared) for own in parts]
    return names if len(set(names)) == len(names) and all(names) else [f.name for f in folders]


def _by_number(folder: Path) -> list[str | int]:
    """Return the name of a folder so that depth 10 comes after depth 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", folder.name)]


def _write_page(
    page: Path,
    title: str,
    labels: Sequence[str],
    said: "Mapping[str, Sequence[Sequence[TokenPrediction]]]",
) -> None:
    """Write texts coloured by a label: of two the second, of more the last head's likeliest."""
    from probekit.page.report_page import ColouredText, write_token_page

    texts = []
    for of_text in zip(*said.values(), strict=True):
        sums = {name: sum(t.probabilities[name] for t in of_text[-1]) for name in labels}
        label = labels[1] if len(labels) == 2 else max(labels, key=lambda name: sums[name])
        rows = {
            name: [(token.token, token.probabilities[label]) for token in tokens]
            for name, tokens in zip(said, of_text, strict=True)
        }
        texts.append(ColouredText(label=label, rows=rows))
    write_token_page(page, title, texts)
    show(str(page), err=True)


def _rounded(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in probabilities.items()}


def _one_line(item: "Item") -> str:
    if isinstance(item, str):
        return item
    return (" " if isinstance(item, list) else "\t").join(item)


def export(
    head: Annotated[
        Path,
        typer.Argument(
            metavar="HEAD",
            help="Folder of a saved head; or of several, each of one layer, as `probekit depth "
            "--save DIR` writes them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="FILE.npz or FILE.safetensors.", show_default="HEAD.npz"
        ),
    ] = None,
    json: arguments.Json = False,
) -> None:
    """Write a linear probe as a direction per layer and class, for the model's own states.

    Direction and bias, applied to raw hidden states, give the probe's logits: its normalisation is
    folded in.
    """
    from probekit.train.saved.directions import MARKS, about, write_directions
    from probekit.train.saved.directions import export as directions_of

    form = "npz" if output is None else output.suffix.removeprefix(".")
    if form not in MARKS:
        raise OptionError(f"-o {output}: choose a name that ends in .npz or .safetensors.")
    directions = directions_of(head)
    usual = head.resolve().with_name(f"{head.resolve().name}.{form}")
    path = output or checked_default(usual, MARKS[form])
    path = write_directions(directions, form, path)
    row = {"path": str(path), "layers": list(directions.layers)} | about(directions)
    if json:
        print_json([row])
        return
    show(str(path))


def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the model, a new one.")],
    model: arguments.ModelNow = None,
    trust_remote_code: arguments.TrustRemoteCode = False,
) -> None:
    """Write the model that a saved run trained as one that AutoModel.from_pretrained loads.

    What lora, bitfit and diff-prune trained is added to the values of the base model; the head is
    not part of it.
    """
    from probekit.train.saved.published_run import merge_run

    show(str(merge_run(run, folder, model=model, trust_remote_code=trust_remote_code)))


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved head or run.")],
) -> None:
    """Write README.md into the folder of a saved run: a model card for the Hub.

    It says the base model, task, method and scores, and how to load it all; what you write outside
    of its marks stays when it is written again.
    """
    from probekit.train.saved.published_run import write_model_card

    show(str(write_model_card(run)))
