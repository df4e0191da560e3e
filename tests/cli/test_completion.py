"""Completion: what a shell is told, through the protocol that typer's scripts speak."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from probekit.backbone.architecture import ENCODER
from probekit.backbone.loading import ComputeDtype
from probekit.backbone.placement import QUANTIZATIONS
from probekit.cli import app
from probekit.data.encoded import Pooling
from probekit.data.windows import OVERLONG
from probekit.probe import decoders, fitters, heads, normalization
from probekit.store.backends import BACKENDS
from probekit.store.layout import FEATURE_DTYPES
from probekit.tasks import TASKS
from probekit.tuning import METHODS

ROOT = Path(__file__).parent.parent.parent


def completed(line):
    """What bash is told for the last word of a line, which may be empty."""
    words = line.split(" ")
    env = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(
        app, [], prog_name="probekit", env=env | {"_PROBEKIT_COMPLETE": "complete_bash"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_commands_and_options():
    assert completed("probekit tra") == ["train"]
    assert set(completed("probekit ")) >= {"extract", "train", "sweep", "export", "cache"}
    assert completed("probekit cache ve") == ["verify"]
    assert completed("probekit sweep m t --hea") == ["--head"]
    assert completed("probekit depth --conf") == ["--config"]


def test_values():
    assert completed("probekit train m t --head ") == list(heads.HEADS)
    assert completed("probekit sweep m t --head last,conc") == ["last,concat", "last,concat-ffn"]
    assert completed("probekit train m t --head=dw") == ["dwatt"]
    assert completed("probekit train m demo") == ["demo-ner"]
    assert set(completed("probekit extract m glue/s")) == {"glue/sst2", "glue/stsb"}
    assert completed("probekit plot de") == ["depth"]
    assert completed("probekit extract m t --kind se") == ["sentence"]
    assert completed("probekit train m t --track t") == ["tensorboard"]
    assert completed("probekit train m t --pooling c") == ["cls"]
    assert {name.partition("/")[0] for name in completed("probekit train m ")} == set(TASKS)


def test_models_of_the_cache(here):
    for name in ("bert", "roberta"):
        (here / "cache" / name).mkdir(parents=True)
    (here / "elsewhere" / "gpt2").mkdir(parents=True)
    assert completed("probekit train b") == ["bert"]
    assert completed("probekit train --cache elsewhere ") == ["gpt2"]
    shutil.rmtree(here / "cache")
    assert completed("probekit train ") == []  # the shell completes files


def test_a_path_is_left_to_the_shell():
    assert completed("probekit predict p") == []
    assert completed("probekit train m t --out p") == []


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("train --decoder", decoders.DECODERS), ("train --normalize", normalization.NORMALIZATIONS),
        ("train --fit", ["auto", *fitters.FITTERS]), ("train --method", METHODS),
        ("extract --dtype", ["auto", *FEATURE_DTYPES]),
        ("extract --compute-dtype", get_args(ComputeDtype)), ("extract --overlong", OVERLONG),
        ("extract --pooling", ["auto", *get_args(Pooling)]), ("extract --format", BACKENDS),
        ("extract --quantize", QUANTIZATIONS), ("extract --part", [ENCODER]),
    ],
)  # fmt: skip
def test_names_that_are_written_out_are_those_of_the_registries(option, names):
    command, name = option.split()
    assert set(completed(f"probekit {command} m t {name} ")) == set(names)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_once_it_is_installed(tmp_path):
    """In a bash of its own: install, then press TAB, with no torch loaded for it."""
    program = tmp_path / "bin" / "probekit"
    program.parent.mkdir()
    code = "import sys; sys.argv[0] = 'probekit'; from probekit.cli import main; "
    code += "import atexit; atexit.register(lambda: 'torch' in sys.modules and print('TORCH')); "
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}main()" "$@"\n')
    program.chmod(0o755)
    script = """
        probekit --install-completion
        source "$HOME/.bashrc"
        COMP_WORDS=(probekit train m t --head last,p3); COMP_CWORD=5
        _probekit_completion probekit
        echo "found: ${COMPREPLY[*]}"
        complete -p probekit
    """
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(tmp_path), "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=120
    )
    assert "bash completion installed in" in done.stdout, done
    assert "found: last,p32\n" in done.stdout
    assert "-F _probekit_completion" in done.stdout and "TORCH" not in done.stdout
