"""The check of prose (tools/check_prose.py): the texts that it reads, and its rules."""

from __future__ import annotations

import importlib.util
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
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def found(check: ModuleType, text: str, markdown: bool = False) -> list[tuple[int, str]]:
    return [(line, rule) for line, rule, _ in check.places(text, markdown)]


@pytest.mark.parametrize(
    ("prose", "rule"),
    [
        ("The error is told by the next call.", "speaks"),
        ("Those\nwho wait are served.", "nobody"),
        ("Whoever reads it knows it.", "nobody"),
        ("An allocation of so many bytes.", "so many"),
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
        "First: whoever asks?",
        "The variable `told` is free.",
        "What a loop keeps, those that follow may use, whatever its length.",
        "# What is told\n\nAn array.\n\n```python\nwhat = told\n```\n",
    ],
)
def test_plain_sentences_questions_and_code_pass(check: ModuleType, prose: str) -> None:
    assert found(check, prose, markdown=True) == []


def test_only_docstrings_and_comments_of_a_source_are_read(check: ModuleType) -> None:
    source = '''"""A module.

It tells a story.
"""
what = "# it is told"  # nobody
text = """
what is told
"""
f(f'"""', "told")  #: told
'''
    assert found(check, source) == [(3, "speaks"), (5, "nobody"), (9, "speaks")]


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)


def test_the_project_is_read_except_its_tests(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "tests/a.py", "# nobody\n")
    assert check.main([]) == 0
    write(tmp_path, "docs/a.md", "It is told.\n")
    assert check.main([]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/docs/a.md:1: told (speaks): {check.RULES['speaks'][1]}\n"


def test_files_are_listed_with_line_word_and_rule(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "isa/a.py", "x = 1\n# nobody\n")
    assert check.main([f"{tmp_path}/isa/a.py", f"{tmp_path}/isa/"]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/isa/a.py:2: nobody (nobody): name the subject\n"
