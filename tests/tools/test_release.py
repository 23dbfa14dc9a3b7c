"""Releases: the versions agree, the page of support has every schema, the tool finds faults, and the wheel stands alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from retrograd import __version__

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("isa", "assembler", "simulator", "compiler", "hdl", "src", "benchmarks")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/check_release.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("check_release")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_versions_agree(tool: ModuleType) -> None:
    texts = {name: (ROOT / name).read_text("utf-8") for name in tool._VERSIONS}
    assert tool.check_agreement(texts) == tool.settings()["project"]["version"] == __version__
    for name, text in texts.items():
        for wrong in (text.replace(__version__, "9.9.9"), ""):
            with pytest.raises(tool.Fault, match=re.escape(name)):
                tool.check_agreement(texts | {name: wrong})


def test_the_tag_of_a_commit(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.tag_of(tmp_path) is None
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), (*named, "commit", "-q", "--allow-empty", "-m", "x"), ("tag", "other")):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    assert tool.tag_of(tmp_path) is None
    subprocess.run(["git", "-C", str(tmp_path), "tag", "v1.2.3"], check=True)
    assert tool.tag_of(tmp_path) == "v1.2.3"


def test_the_tag_is_the_version(tool: ModuleType) -> None:
    tool.check_version(None, "1.0.0", "")
    tool.check_version("v1.0.0", "1.0.0", "# Changelog\n\n## 1.0.0 (2027-01-31)\n")
    for tag, changelog in (("v1.0.1", "## 1.0.0 (2027-01-31)\n"), ("v1.0.0", "## 1.0.0 (unreleased)\n"), ("1.0.0", "")):
        with pytest.raises(tool.Fault):
            tool.check_version(tag, "1.0.0", changelog)


@pytest.mark.long
def test_the_page_of_support_has_every_schema() -> None:
    """Strings that are schemas as a whole, in all sources; of texts that name one in passing, none."""
    pattern = re.compile(r"retrograd\.[a-z-]+/\d+")
    used = set()
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.fullmatch(node.value):
                used.add(node.value)
    assert len(used) > 20
    assert set(pattern.findall((ROOT / "docs" / "support.md").read_text("utf-8"))) == used


def test_every_data_file_of_a_package_is_declared(tool: ModuleType) -> None:
    """A file that is no module is in the wheel, unless it is documentation of the folder."""
    declared = tool.settings()["tool"]["setuptools"]
    expected = tool.expected_files(declared["packages"], declared["package-dir"], declared["package-data"])
    assert {"retrograd/py.typed", "retrograd/examples/janus/fib.ja", "retrograd/isa/table.py"} <= expected
    names = {path.rpartition("/")[2] for path in expected}
    tracked = subprocess.run(
        ["git", "ls-files", *FOLDERS, "examples"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode == 0:
        assert {Path(line).name for line in tracked.stdout.splitlines()} <= names


def test_contents_are_checked(tool: ModuleType, tmp_path: Path) -> None:
    declared = tool.settings()["tool"]["setuptools"]
    expected = tool.expected_files(declared["packages"], declared["package-dir"], declared["package-data"])
    for missing, added in (((), ()), (("retrograd/py.typed",), ()), ((), ("retrograd/stray.py",))):
        with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
            for name in (expected - set(missing)) | set(added) | {"retrograd-0.1.0.dist-info/METADATA"}:
                wheel.writestr(name, "")
        if missing or added:
            with pytest.raises(tool.Fault):
                tool.check_contents(tmp_path / "x.whl")
        else:
            assert tool.check_contents(tmp_path / "x.whl") == len(expected)


def test_running_and_differentiating_import_no_matplotlib_and_no_amaranth() -> None:
    code = """
import sys
import numpy as np
import retrograd as rg
from retrograd.examples.hypot import hypot
hypot(0.0, 3.0, 4.0); (~hypot)(5.0, 3.0, 4.0); rg.grad(hypot, "x")(0.0, 3.0, 4.0); rg.hessian(hypot, "x")(0.0, 3.0, 4.0)
rg.vmap(hypot)(np.zeros(2), np.ones(2), np.ones(2))
str(rg.energy(hypot, 0.0, 3.0, 4.0, tech="cmos45"))
from retrograd import testing
testing.check_inverse(hypot, 0.0, 3.0, 4.0)
for name in rg.__all__: getattr(rg, name)
print(sorted({"matplotlib", "amaranth", "rich", "pygments"} & {*sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.long
@pytest.mark.skipif(find_spec("build") is None or find_spec("twine") is None, reason="needs the extra release")
def test_the_wheel_alone(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--out", str(tmp_path), "--tests"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    seconds, megabytes = re.findall(r"base install (\d+) s, (\d+) MB", out)[0]
    assert int(seconds) <= 60, out
    assert int(megabytes) <= 500, out
    # A gradient, a debugger session and a batch on four workers: fifteen minutes for a person, of which this is the machine's part.
    assert int(re.findall(r"first steps (\d+) s", out)[0]) <= 120, out
