"""Measure how the package is built, and print the figures; for the last ones, probekit runs."""

import argparse
import ast
import io
import runpy
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import typer
from followed_calls import walks

# kinds of label, arrays of an entry, and the constants that hold them
NAMES = {"tagging", "sentence", "pair", "regression", "language-modelling"}
NAMES |= {"words", "predicted", "cls", "mean", "last", "tokens"}
CONSTANTS = {"ARRAYS", "KINDS", "LAST_ONLY", "POOLED", "OWN_ROWS", "TOKENS", "CLASS_KINDS"}
SOUGHT = (NAMES, CONSTANTS | {"CODE_KINDS", "CONTROL_KINDS"})
SHARED = {"__init__", "__main__", "contract"}  # names that many packages have
SMALL, LARGE = 60, 450
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Arrows = set[tuple[str, str]]


class Module(NamedTuple):
    """A file of the package: its dotted name within (``__init__``: the face), text and syntax."""

    name: str
    text: str
    nodes: list[ast.AST]


def read(package: Path) -> list[Module]:
    """Read all files of the package, stubs as well."""
    paths = sorted([*package.rglob("*.py"), *package.rglob("*.pyi")])
    texts = {path: path.read_text("utf-8") for path in paths}
    dotted = {p: ".".join(p.relative_to(package).with_suffix("").parts) for p in texts}
    return [Module(dotted[p], text, list(ast.walk(ast.parse(text)))) for p, text in texts.items()]


def holder(dotted: str, names: Iterable[str]) -> str:
    """Return the longest of the names that ``dotted`` is or lies in, else the face."""
    around = (name for name in names if f"{dotted}.".startswith(f"{name}."))
    return max(around, key=len, default="__init__")


def imports(modules: list[Module]) -> Arrows:
    """Return which module imports which, at any depth of its code; the face loads on demand."""
    homes = [module.name.removesuffix(".__init__") for module in modules]
    found: Arrows = set()
    for home, module in zip(homes, modules, strict=True):
        for node in module.nodes if home != "__init__" else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                ours = [f"{start}{a.name}".partition("probekit.")[2] for a in node.names]
                found |= {(home, holder(name, homes)) for name in ours if name}
    return found


def between(arrows: Arrows, rooms: Iterable[str]) -> Arrows:
    """Return the arrows that lead from one room to another; what lies in none is the face."""
    pairs = {(holder(source, rooms), holder(target, rooms)) for source, target in arrows}
    return {(source, target) for source, target in pairs if source != target}


def room_rows(modules: list[Module], levels: Iterable[set[str]]) -> Iterator[tuple[str, object]]:
    """Yield the rows of rooms and arrows; one leads upward to a higher level, or to no level."""
    tops = {module.name.partition(".")[0] for module in modules}
    files = [module.name for module in modules if "." not in module.name]
    yield "rooms: packages, files", f"{len(tops.difference(files))}, {len(files)}"
    level = {name: number for number, names in enumerate([*levels, {"__init__"}]) for name in names}
    arrows = imports(modules)
    upward = [(a, b) for a, b in between(arrows, level) if level[a] < level[b]]
    parts = networkx.strongly_connected_components(networkx.DiGraph(arrows))
    figures = len(between(arrows, tops)), len(upward), sum(len(part) > 1 for part in parts)
    yield "arrows between rooms / upward / circles", "{} / {} / {}".format(*figures)
    sizes = [len(module.text.splitlines()) for module in modules]
    small, large = sum(size < SMALL for size in sizes), sum(size > LARGE for size in sizes)
    yield f"files / under {SMALL} lines / over {LARGE}", f"{len(sizes)} / {small} / {large}"
    stems = Counter(module.name.rpartition(".")[2] for module in modules)
    shared = [n for stem, n in stems.items() if n > 1 and stem not in SHARED]
    yield "base names that stand for several files / for how many", f"{len(shared)} / {sum(shared)}"


def span(node: ast.stmt) -> range:
    """Return the numbers of a statement's lines."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def docstrings(nodes: Iterable[ast.AST]) -> list[range]:
    """Return the lines of each statement that is a string, below a constant too."""
    alone = [node for node in nodes if isinstance(node, ast.Expr)]
    return [span(node) for node in alone if isinstance(getattr(node.value, "value", None), str)]


def code_and_comments(module: Module) -> tuple[int, int]:
    """Return the lines of code (not blank, comment or docstring), and those with a comment."""
    code, comments = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code.difference(*docstrings(module.nodes))), len(comments)


def operands(module: Module) -> Iterator[tuple[set[object], set[object]]]:
    """Yield the literals, and the names, that each comparison or value of a `case` is with."""
    for node in module.nodes:
        if isinstance(node, ast.Compare | ast.MatchValue):
            sides = (
                [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value]
            )
            sides += [element for side in sides for element in getattr(side, "elts", ())]
            literals = {side.value for side in sides if isinstance(side, ast.Constant)}
            yield literals, {side.id for side in sides if isinstance(side, ast.Name)}


def code_rows(modules: list[Module]) -> Iterator[tuple[str, object]]:
    """Yield the rows of lines, functions and comparisons."""
    counts = [code_and_comments(module) for module in modules]
    total = sum(len(module.text.splitlines()) for module in modules)
    yield "lines of code / all lines", f"{sum(n for n, _ in counts):,} / {total:,}"
    yield "lines with a comment", f"{sum(n for _, n in counts) / total:.1%}"
    imported = [n for m in modules for n in m.nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    yield "lines that are imports", f"{sum(len(span(n)) for n in imported) / total:.1%}"
    functions = [n for m in modules for n in m.nodes if isinstance(n, ast.FunctionDef)]
    sizes = sorted(len(span(f)) - sum(map(len, docstrings(f.body[:1]))) for f in functions)
    figures = len(sizes), *(sizes[len(sizes) * p // 100] for p in (50, 90)), sizes[-1]
    yield "functions: lines p50 / p90 / max", "{:,}: {} / {} / {}".format(*figures)
    found = [pair for m in modules if not m.name.startswith("tasks.") for pair in operands(m)]
    for n, what in enumerate(("kind or array name", "constant of such names")):
        figure = sum(bool(pair[n] & SOUGHT[n]) for pair in found)
        yield f"comparisons with a {what} outside `tasks`", figure


def test_rows(tests: Path) -> Iterator[tuple[str, object]]:
    """Yield the lines of code of the tests, those of `tests/faults` apart."""
    total = {faults: 0 for faults in (False, True)}
    for module in read(tests):
        total[module.name.startswith("faults.")] += code_and_comments(module)[0]
    yield "lines of code of the tests / of `tests/faults`", "{:,} / {:,}".format(*total.values())


def option_rows(root: Path) -> Iterator[tuple[str, object]]:
    """Yield how many options the commands have of the probekit in the checkout ``root``."""
    sys.path.insert(0, str(root))
    counts = dict(options(typer.main.get_command(import_module("probekit.cli.app").app)))
    figures = len(counts), sum(counts.values()), counts["train"], counts["extract"]
    yield "commands / options / of `train` / of `extract`", "{} / {} / {} / {}".format(*figures)


def options(command: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield every command below one, and how many options it has."""
    for below, inner in getattr(command, "commands", {}).items():
        yield from options(inner, f"{name} {below}".strip())
    if not hasattr(command, "commands"):
        yield name, sum(one.param_type_name == "option" for one in command.params)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure how the package is built.")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="a checkout")
    root = parser.parse_args().root.resolve()
    levels = runpy.run_path(str(root / "tests" / "test_import_levels.py"))["LEVELS"]
    modules = read(root / "probekit")
    print("| what | figure |\n|---|---|")
    written = chain(room_rows(modules, levels), code_rows(modules), test_rows(root / "tests"))
    for what, figure in chain(written, option_rows(root), walks(root)):
        print(f"| {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
