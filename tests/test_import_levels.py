"""Every file imports only from lower levels or from its own room."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEVELS = [
    {"errors", "version"}, {"base"}, {"metrics"}, {"tasks", "store", "probe", "engines"},
    {"data", "results", "tuning"}, {"backbone", "plots"}, {"features", "page"},
    {"extraction", "measures", "train"}, {"train.saved", "sklearn", "exchange"}, {"train.sweeps"},
    {"train.baselines"}, {"cli", "testing"}, {"__init__", "__main__"},
]  # fmt: skip
"""From below: a room imports from lower levels alone, or from itself."""

LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
FILES = sorted((ROOT / "probekit").rglob("*.py"))


def room(module: str) -> str:
    """The room of a module, given without ``probekit.``: the longest name that has a level."""
    parts = module.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in LEVEL), parts[0])


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "probekit").with_suffix("").parts)


def imported(tree: ast.AST, path: Path) -> set[str]:
    """Modules and names of probekit that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it in full"
            # `from probekit import x` names the package x itself
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.partition(".")[2] for name in names if name.startswith("probekit.")}
    return found


def violations(source: str, path: Path) -> list[str]:
    own = room(module_of(path))
    assert own in LEVEL, f"{path}: give {own!r} an import level"
    rooms = {room(name) for name in imported(ast.parse(source), path)} - {own}
    return [f"{path}: {own} imports {n}" for n in rooms if LEVEL.get(n, 99) >= LEVEL[own]]


def test_imports_only_lower_levels():
    assert [line for path in FILES for line in violations(path.read_text(), path)] == []


def test_every_level_is_of_a_room():
    rooms = {room(module_of(path)) for path in FILES}
    assert rooms == set(LEVEL)


def test_a_violation_is_found():
    path = ROOT / "probekit" / "probe" / "heads" / "x.py"
    assert violations("import probekit.probe.y, probekit.errors\n", path) == []
    assert violations("from probekit import store", path) == [f"{path}: probe imports store"]
    assert violations("def f():\n import probekit.cli.x", path) == [f"{path}: probe imports cli"]
    path = ROOT / "probekit" / "train" / "saved" / "x.py"
    assert violations("from probekit.train import fit", path) == []
    line = f"{path}: train.saved imports train.sweeps"
    assert violations("from probekit.train.sweeps import fit", path) == [line]


def test_package_root_imports_nothing_at_once():
    path = ROOT / "probekit" / "__init__.py"
    assert imported(ast.parse(path.read_text()), path) == set()


HEAVY = ("torch", "transformers", "datasets", "pandas")
LIGHT = ("", ".cli", ".results", ".results.tables", ".probe.heads", ".tasks", ".features.location")
SLIPS = {
    "no entry of nope demo-ner in nowhere.": "train nope demo-ner --cache nowhere",
    "unknown task 'nope'": "sweep demo-ner nope",
    "no cache entry matches nope demo-ner in nowhere.": "cache info nope demo-ner --cache nowhere",
}
PROGRAM = f"""
import importlib, sys
def heavy(room):
    importlib.import_module("probekit" + room)
    return [name for name in {HEAVY} if name in sys.modules]
def slip(command):
    try:
        importlib.import_module("probekit.cli.app").app(command.split())
    except SystemExit:
        return heavy(".cli")
light = {{room: heavy(room) for room in {LIGHT}}}
slips = [slip(command) for command in {[*SLIPS.values()]}]
print({{**light, "slips": sum(slips, []), ".train.sweeps.run": heavy(".train.sweeps.run")}})
"""


def test_imports_stay_light():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    expected: dict[str, list[str]] = {room: [] for room in LIGHT}
    expected[".train.sweeps.run"] = ["torch"]  # which every worker of a sweep imports
    assert ast.literal_eval(done.stdout) == expected | {"slips": []}
    assert all(said in done.stderr for said in SLIPS), done.stderr
