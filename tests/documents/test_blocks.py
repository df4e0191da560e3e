"""What pages show: commands and options exist, links lead somewhere, what is not run says why."""

import functools
import re

import pytest
import typer.main

from probekit.cli import app
from tests.documents.code_blocks import ROOT, RUN, Block, blocks, commands, names_of, pages

TEXTS = {names_of(page): page.read_text("utf-8") for page in pages()}
BLOCKS = {name: blocks(text) for name, text in TEXTS.items()}
MOST_NOT_RUN = 10
REASONS = ("needs ", "installs ", "a part of ", "takes hours", "another test runs it: ")


commands_of = functools.cache(typer.main.get_command)


def all_commands() -> list[list[str]]:
    found = [
        call
        for page in BLOCKS.values()
        for block in page
        if block.language == "sh"
        for call in commands(block.text)
    ]
    cells = re.findall(r"^\|.*\| `(probekit .+?)`.* \|$", "\n".join(TEXTS.values()), re.MULTILINE)
    return [call for call in [*found, *(one for cell in cells for one in commands(cell))] if call]


@pytest.mark.parametrize("arguments", all_commands(), ids=" ".join)
def test_every_command_parses(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # --log-file FILE begins a file when it is read
    root = commands_of(app)
    context = root.make_context("probekit", arguments, resilient_parsing=True)
    name, *rest = [*context._protected_args, *context.args]
    command = root.get_command(context, name)
    assert command is not None, f"no command {name}"
    while hasattr(command, "commands"):
        command, *rest = command.commands[rest[0]], *rest[1:]
    if context.params.pop("config"):  # a block before writes it, with the model and the task
        rest = ["MODEL", "TASK", *rest]
    command.make_context(name, rest, parent=context)


def test_every_option_in_the_text_exists():
    root = commands_of(app)
    context = root.make_context("probekit", ["tasks"], resilient_parsing=True)
    known = {"--help", *(option for parameter in root.params for option in parameter.opts)}
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        for one in getattr(command, "commands", {name: command}).values():
            known |= {
                option
                for parameter in one.params
                for option in [*parameter.opts, *parameter.secondary_opts]
            }
    # scripts of the repository and other programs have options of their own
    others = {"--write", "--done", "--control-vector", "--port", "--address"}
    others |= {"--array", "--wrap", "--requeue"}  # of sbatch
    for page, text in TEXTS.items():
        mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - others
        assert mentioned - known == set(), page


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files_of_the_repository(name):
    # zensical looks at those of the site, and at their anchors
    for path in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", TEXTS[name]):
        assert ((ROOT / name).parent / path).is_file(), path


def test_anchors_of_other_pages_are_headings_there():
    for name, text in TEXTS.items():
        for path, anchor in re.findall(r"\]\(([^)#:\s]*\.md)?#([^)]+)\)", text):
            target = (ROOT / name).parent / path if path else ROOT / name
            assert anchor in _anchors(target.read_text("utf-8")), f"{name}: {path}#{anchor}"


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_what_is_not_run_says_why_and_is_little():
    skipped = [one for page in BLOCKS.values() for one in page if one.reason is not None]
    assert all(one.reason.startswith(REASONS) for one in skipped), [s.reason for s in skipped]
    assert len(skipped) <= MOST_NOT_RUN
    ran = sum(one.runs for page in BLOCKS.values() for one in page)
    assert ran > 3 * len(skipped)


def test_blocks_say_their_language():
    for name, page in BLOCKS.items():
        for one in page:
            assert one.language in (*RUN, "text", "toml"), f"{name}:{one.line}"


def test_every_fence_is_part_of_a_block():
    for name, text in TEXTS.items():
        assert text.count("\n```") == 2 * len(BLOCKS[name]), name


def test_blocks_are_read_as_they_stand():
    page = (
        "a\n<!-- not run: needs the Hub -->\n```sh\nx\n```\n\n```python\ny\n```\n```text\nz\n```\n"
    )
    assert blocks(page) == [
        Block("sh", "x\n", 4, "needs the Hub"),
        Block("python", "y\n", 8),
        Block("text", "z\n", 11),
    ]
    assert [one.runs for one in blocks(page)] == [False, True, False]


def test_commands_are_found_in_a_shell():
    text = (
        "cat > f <<'END'\nprobekit no\nit's text\nEND\n"
        "probekit a --x 1   # probekit no\n"
        'echo "b c" | probekit b f#head=last -\n'
        "probekit c $(probekit d e) --y\n"
        'sbatch --wrap "probekit g h"\n'
        "probekit i --title '' -o j\n"
    )
    assert list(commands(text)) == [
        ["a", "--x", "1"], ["b", "f#head=last", "-"], ["d", "e"], ["c", "WORD", "--y"], ["g", "h"],
        ["i", "--title", "", "-o", "j"],
    ]  # fmt: skip


def test_the_readme_is_short():
    assert len(TEXTS["README.md"].splitlines()) <= 150


def test_lines_are_wrapped():
    for name in ("README.md", *(name for name in TEXTS if name.startswith("docs/howto/"))):
        long = [
            line for line in TEXTS[name].splitlines()
            if len(line) > 120 and not line.startswith(("|", "probekit "))
        ]  # fmt: skip
        assert not long, name
