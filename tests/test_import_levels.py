"""Every file imports only from lower levels or from its own package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEVELS = [
    {"errors", "containers", "configuration", "reasons"},
    {"registry", "fingerprint", "seeding", "layers", "hardware", "quantities", "ragged"}
    | {"buffers", "heap", "progress", "sending", "once", "interrupts", "output_head", "final_norm"}
    | {"initialization", "precision", "selection", "parameter_groups"},
    {"blocks"},
    {"tasks", "pooling", "store", "heads", "decoders", "metrics", "results"},
    {"fitters", "data"},
    {"backbone"},
    {"features"},
    {"specs", "protocols"},
    {"train", "engines"},
    {"extraction", "depth", "sweeps", "prediction", "maintenance", "comparison"},
    {"plots", "report", "baselines"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
LEVEL["errors"] = -1  # the rest of level 0 raises them
FILES = sorted((ROOT / "probekit").rglob("*.py"))


def _package(path: Path) -> str:
    first = path.relative_to(ROOT / "probekit").parts[0]
    return first.removesuffix(".py")


def _imported(tree: ast.AST, path: Path) -> set[str]:
    """Names of the probekit packages that a file imports, at any depth of its code."""
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
        found |= {name.split(".")[1] for name in names if name.startswith("probekit.")}
    return found - {"__version__"}


def _violations(source: str, path: Path) -> list[str]:
    own = _package(path)
    assert own in LEVEL, f"{path}: give {own!r} an import level"
    imported = _imported(ast.parse(source), path) - {own}
    return [f"{path}: {own} imports {n}" for n in imported if LEVEL.get(n, 99) >= LEVEL[own]]


@pytest.mark.parametrize("path", FILES[1:], ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_lower_levels(path):
    assert _violations(path.read_text(), path) == []


def test_a_violation_is_found():
    path = ROOT / "probekit" / "heads" / "x.py"
    assert _violations("import probekit.heads.y, probekit.errors\n", path) == []
    assert _violations("from probekit import store", path) == [f"{path}: heads imports store"]
    assert _violations("def f():\n import probekit.cli.x", path) == [f"{path}: heads imports cli"]


def test_package_root_imports_nothing_at_once():
    path = ROOT / "probekit" / "__init__.py"
    assert FILES[0] == path  # exempt above: its names are loaded on first use
    body = [
        node
        for node in ast.parse(path.read_text()).body
        if not isinstance(node, ast.FunctionDef)
        and not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    assert _imported(ast.Module(body, []), path) == set()


HEAVY = ("torch", "transformers", "datasets")


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("probekit", set()),
        ("probekit.cli", set()),
        ("probekit.results", set()),
        ("probekit.sweeps", {"torch"}),  # which every worker of a sweep imports
    ],
)
def test_import_stays_light(module, needed):
    code = f"import {module}, sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == needed
