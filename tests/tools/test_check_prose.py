"""The check of prose (tools/check_prose.py): the texts that it reads, its rules, and counts that only fall."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, over an empty project in a folder of the test."""
    spec = importlib.util.spec_from_file_location("retrograd_tools_check_prose", ROOT / "tools" / "check_prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "prose_counts.json").write_text("{}")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "COUNTS", tmp_path / "tools" / "prose_counts.json")
    return module


def found(check: ModuleType, text: str, markdown: bool = False) -> list[tuple[int, str]]:
    return [(line, rule) for line, rule, _ in check.places(text, markdown)]


@pytest.mark.parametrize(
    ("prose", "rule"),
    [
        ("The error is told by the next call.", "speaks"),
        ("The page says so.", "speaks"),
        ("A float remembers its word.", "speaks"),
        ("Those\nwho wait are served.", "nobody"),
        ("Whoever reads it, knows.", "nobody"),
        ("What is kept is freed.", "what"),
        ("An allocation of so many bytes.", "so many"),
        ("Give a name, or one that is new.", "one"),
        ("A model of one's own.", "one"),
    ],
)
def test_each_rule_has_an_example(check: ModuleType, prose: str, rule: str) -> None:
    assert rule in {name for _, name in found(check, prose, markdown=True)}
    assert rule in {name for _, name in found(check, f'"""{prose}"""\n')}


@pytest.mark.parametrize(
    "prose",
    [
        "Of an instruction and its inverse, the one that is shorter is padded.",
        "It has so many digits that they do not fit.",
        "First: what is reversible computing?",
        "The variable `what` is free.",
        "# What a call returns\n\nAn array.\n\n```python\nwhat = told\n```\n",
    ],
)
def test_plain_sentences_questions_and_code_pass(check: ModuleType, prose: str) -> None:
    assert found(check, prose, markdown=True) == []


def test_only_docstrings_and_comments_of_a_source_are_read(check: ModuleType) -> None:
    source = '''"""A module.

What it does.
"""
what = "# what is told"  # what this is
text = """
what is told
"""
f(f'"""', "what")  #: told
'''
    assert found(check, source) == [(3, "what"), (5, "what"), (9, "speaks")]


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)


def test_the_counts_of_a_folder_only_fall(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "docs/a.md", "What is told.\n")
    assert check.main([]) == 1
    assert "docs: 2 places break a rule of prose, 0 are recorded" in capsys.readouterr().err
    assert check.main(["--update"]) == 1, "a total is never raised"
    assert "mend some" in capsys.readouterr().err
    check.COUNTS.write_text('{"docs": 3}')
    assert check.main([]) == 0
    assert "record the lower number" in capsys.readouterr().out
    assert check.main(["--update"]) == 0
    assert json.loads(check.COUNTS.read_text()) == {"docs": 2}
    assert check.main([]) == 0
    # A file that moves takes its places along: the check fails until they are recorded there.
    (tmp_path / "docs/a.md").rename(tmp_path / "isa.md")
    assert check.main([]) == 1
    assert check.main(["--update"]) == 0
    assert json.loads(check.COUNTS.read_text()) == {".": 2}


def test_files_are_listed_with_line_word_and_rule(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "isa/a.py", "x = 1\n# nobody\n")
    assert check.main([f"{tmp_path}/isa/a.py", f"{tmp_path}/isa/"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/isa/a.py:2: nobody (nobody): name the subject\n"
