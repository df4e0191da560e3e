"""Build the site: the documents, the pages of analyses and cache, and generated tables.

Pages lead to one another as files of the repository do, so that they can be read there. The site
has a folder of its own for them (``docs_dir`` of ``zensical.toml``), where their links are written
anew, and where a comment such as ``<!-- commands -->`` becomes a table made from the package:

    python tools/site.py            # into site/, with every warning an error
"""

import csv
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "zensical.toml"
MEASURED = ("benchmarks/RESULTS.md", "benchmarks/SCALE.md")
PAGES = ("README.md", "docs", "analyses", "cache/README.md", *MEASURED)
KINDS = (".md", ".png", ".ipynb", ".jsonl", ".csv", ".cff")
NAMES = {
    "README.md": "index.md",
    "cache/README.md": "reference/cache-format.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "benchmarks/SCALE.md": "scale-tables.md",
    "analyses/README.md": "analyses/index.md",
    "CITATION.cff": "CITATION.cff",
}
"""What is called otherwise on the site; all else keeps its path, without ``docs/``."""

_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def place_of(path: str) -> str:
    """Return where a file of the repository is on the site."""
    name = NAMES.get(path, path.removeprefix("docs/"))
    return name.replace(".ipynb", ".md")


def sources() -> Iterator[Path]:
    """Yield what the site is made of: pages, and pictures and records that they show."""
    for name in PAGES:
        path = ROOT / name
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (one for one in found if one.suffix in KINDS)
    yield ROOT / "CITATION.cff"


def relink(text: str, source: str) -> str:
    """Write a page's links to other files as the site has them.

    Args:
        text: of the page.
        source: the page's path in the repository.
    """
    here = Path(place_of(source)).parent

    def write(match: re.Match[str]) -> str:
        target = os.path.normpath(Path(source).parent / match[2])
        return f"{match[1]}{os.path.relpath(place_of(target), here)}{match[3]}"

    return _LINK.sub(write, text)


def commands() -> str:
    """Return a section with tables of options for every command."""
    import typer.main

    from probekit.cli import app

    root: Any = typer.main.get_command(app)
    context = root.make_context("probekit", ["tasks"], resilient_parsing=True)
    found = []
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        parts: Mapping[str, Any] = getattr(command, "commands", {"": command})
        found += [_command(f"{name} {part}".strip(), one) for part, one in parts.items()]
    return "\n".join(found)


def _command(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = [f"{one.metavar or one.name.upper()}{'...' * (one.nargs < 0)}" for one in arguments]
    call = " ".join(["probekit", name, *words])
    text = f"## probekit {name}\n\n`{call}`\n\n{inspect.cleandoc(command.help)}\n"
    panels: dict[str, list[Any]] = {}
    for one in command.params:
        if one.param_type_name == "option" and not one.hidden:
            panels.setdefault(one.rich_help_panel or "Options", []).append(one)
    for panel in sorted(panels, key=lambda title: title != "Options"):
        rows = "\n".join(f"| {_option(one)} | {_cell(one.help)} |" for one in panels[panel])
        text += f"\n| {panel.replace(' ', '&nbsp;')} | |\n|---|---|\n{rows}\n"
    return text


def _option(one: Any) -> str:
    return f"`{', '.join([*one.opts, *one.secondary_opts])}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


def record_fields() -> str:
    """Return a table of the fields of a record, from its docstring."""
    from probekit import Record

    about = inspect.cleandoc(Record.__doc__ or "").split("Attributes:\n")[1].split("\n\n")[0]
    fields = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", about, re.MULTILINE)
    rows = "\n".join(f"| `{name}` | {_cell(text).replace('``', '`')} |" for name, text in fields)
    return f"| field | |\n|---|---|\n{rows}"


def judged() -> str:
    """Return the table of what other programs said."""
    with (ROOT / "docs" / "judged.csv").open(newline="") as file:
        heading, *rows = csv.reader(file)
    lines = [heading, ["---"] * len(heading), *([*row[:3], f"`{row[3]}`", row[4]] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "commands": commands, "record fields": record_fields, "judged": judged
}  # fmt: skip


def fill(text: str) -> str:
    """Put generated tables where a page asks for them."""
    for name, make in TABLES.items():
        mark = f"<!-- {name} -->"
        if mark in text:
            # what stands behind says where this is to be found by those who read the repository
            text = text.split(mark)[0] + make() + "\n"
    return text


def notebook(path: Path) -> str:
    """Return a notebook as a page."""
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(
        f"```python\n{cell.source}\n```" if cell.cell_type == "code" else cell.source
        for cell in cells
    )


def stage(folder: Path) -> None:
    """Write everything that the site is made of into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sources():
        source = path.relative_to(ROOT).as_posix()
        target = folder / place_of(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix not in (".md", ".ipynb"):
            shutil.copyfile(path, target)
            continue
        text = notebook(path) if path.suffix == ".ipynb" else path.read_text("utf-8")
        target.write_text(fill(relink(text, source)), "utf-8")


def index_for_models(project: Mapping[str, Any], folder: Path) -> str:
    """Return ``llms.txt``: every page of the navigation, with its first sentence.

    Args:
        project: of ``zensical.toml``.
        folder: that the pages are staged in.
    """
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    alone = [item for item in project["nav"] if isinstance(*item.values(), str)]
    sections = [item for item in project["nav"] if item not in alone]
    for section in [{"Documents": alone}, *sections]:
        ((title, items),) = section.items()
        lines += ["", f"## {title}", ""]
        for item in items:
            ((name, page),) = item.items()
            about = first_sentence((folder / page).read_text("utf-8"))
            lines.append(f"- [{name}]({page.removesuffix('.md')}.html): {about}")
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's prose, without its markup."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    prose = next(part for part in paragraphs if re.match(r"[\w`\[]|\*\*", part))
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose).replace("**", "")
    return re.split(r"(?<=[.:?])\s", words, maxsplit=1)[0].rstrip(":")


def main() -> int:
    """Build the site, and its index for language models; return zensical's exit status."""
    with CONFIG.open("rb") as file:
        project = tomllib.load(file)["project"]
    folder = ROOT / project["docs_dir"]
    stage(folder)
    words = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    status = subprocess.run([*words, "--config-file", str(CONFIG)], cwd=ROOT).returncode
    if status == 0:
        index = index_for_models(project, folder)
        (ROOT / project["site_dir"] / "llms.txt").write_text(index, "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
