"""Build the wheel and the source distribution, check both, and test the wheel alone.

    python tools/check_release.py [--out dist] [--tag v0.1.0] [--python python3.12 …] [--tests tests/assembler …]

1. The versions in pyproject.toml, src/retrograd/version.py, CITATION.cff and the changelog agree. With --tag, or where the commit has a
   tag `vX.Y.Z`, they are that of the tag, and the changelog has the date. `build` makes the source distribution, and the wheel out of it.
2. `twine check --strict` and `check-wheel-contents` find no fault. The wheel has every module and data file of the packages.
3. For each Python: a fresh environment with the wheel and its dependencies, timed and measured; `retrograd demo` and a gradient in an
   empty folder, and the first steps of a new user (README.md, docs/first-steps.md); then the tests of --tests beside nothing but the wheel. The tests come from the source distribution, whose packages are
   deleted first, so that a module or a data file that the wheel lacks is missed.

Needs `pip install 'retrograd[release]'`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_TESTS = ("tests/assembler", "tests/values", "tests/debugger")
#: file -> its version
_VERSIONS = {
    "pyproject.toml": r'^version = "(.*)"$',
    "src/retrograd/version.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "CHANGELOG.md": r"^## (\S+) \(",
}
_GRADIENT = """
import retrograd, sys
from retrograd.examples.hypot import hypot
assert "site-packages" in retrograd.__file__, retrograd.__file__
assert [round(g, 6) for g in retrograd.grad(hypot, ("x", "y"))(0.0, 3.0, 4.0)] == [0.6, 0.8]
assert not {"matplotlib", "amaranth"} & {*sys.modules}
"""


class Fault(Exception):
    """A release that is not fit."""


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """The output of a command. Raises Fault with it if the command fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise Fault(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


def settings() -> dict[str, object]:
    """The settings of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def check_agreement(texts: dict[str, str]) -> str:
    """The version, which all files that state it have: file -> text. Raises Fault."""
    found = {name: re.search(pattern, texts[name], re.MULTILINE) for name, pattern in _VERSIONS.items()}
    versions = {name: match and match[1] for name, match in found.items()}
    (version, *others) = {*versions.values()}
    if others or version is None:
        raise Fault(f"the versions differ: {', '.join(f'{name} has {v}' for name, v in versions.items())}")
    return version


def tag_of(folder: Path) -> str | None:
    """The tag `vX.Y.Z` of the commit that is checked out; None without one, or without git."""
    command = ["git", "-C", str(folder), "tag", "--points-at", "HEAD", "v[0-9]*"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return None
    return next(iter(done.stdout.split()), None)


def check_version(tag: str | None, version: str, changelog: str) -> None:
    """The tag of a release is `v` and its version, and the changelog has the version, with a date. Raises Fault."""
    if tag is None:
        return
    if tag != f"v{version}":
        raise Fault(f"the tag is {tag}, and the version {version}")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        raise Fault(f"CHANGELOG.md has no heading `## {version} (YEAR-MONTH-DAY)`")


def expected_files(
    packages: list[str], folders: dict[str, str], data: dict[str, list[str]], root: Path = ROOT
) -> set[str]:
    """The paths in the wheel of all modules and data files of the packages."""
    found = set()
    for package in packages:
        inner = package
        while inner not in folders:
            inner = inner.rpartition(".")[0]
        folder = root / folders[inner] / package.removeprefix(inner).strip(".").replace(".", "/")
        patterns = ["*.py", *data.get(package, ())]
        found |= {
            f"{package.replace('.', '/')}/{f.relative_to(folder).as_posix()}" for p in patterns for f in folder.glob(p)
        }
    return found


def check_contents(wheel: Path) -> int:
    """Every file of the packages is in the wheel, and no other; returns their number. Raises Fault."""
    tool = settings()["tool"]["setuptools"]  # type: ignore[index]
    expected = expected_files(tool["packages"], tool["package-dir"], tool["package-data"])
    with zipfile.ZipFile(wheel) as file:
        there = {name for name in file.namelist() if not name.split("/")[0].endswith(".dist-info")}
    if there != expected:
        raise Fault(f"the wheel lacks {sorted(expected - there)[:9]}, and has besides {sorted(there - expected)[:9]}")
    return len(there)


def check_wheel_alone(python: str, wheel: Path, source: Path, tests: list[str]) -> str:
    """Install the wheel in a fresh environment, and run it there; a line of measurements. Raises Fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "venv")
        own = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        packages = Path(run(own, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        before = size(packages)
        begun = time.monotonic()
        run(own, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
        seconds, megabytes = time.monotonic() - begun, (size(packages) - before) / 2**20
        (folder / "empty").mkdir()
        run(own, "-c", _GRADIENT, folder=folder / "empty")
        run(own, "-m", "retrograd.cli.main", "demo", folder=folder / "empty")
        begun = time.monotonic()
        run(own, ROOT / "tools" / "run_examples.py", "README.md", "docs/first-steps.md")
        line = f"{run(own, '--version').strip()}: base install {seconds:.0f} s, {megabytes:.0f} MB"
        line += f"; first steps {time.monotonic() - begun:.0f} s"
        if tests:
            run(own, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[test]")
            line += "; " + run(own, "-m", "pytest", "-q", "-n", "2", *tests, folder=source).strip().splitlines()[-1]
        return line


def size(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def without_packages(sdist: Path, folder: Path) -> Path:
    """Unpack a source distribution without the packages: its tests, documents and tools."""
    with tarfile.open(sdist) as file:
        # Python before 3.11.4 has no filters.
        if hasattr(tarfile, "data_filter"):
            file.extraction_filter = tarfile.data_filter
        file.extractall(folder)
    (unpacked,) = folder.iterdir()
    for name in set(settings()["tool"]["setuptools"]["package-dir"].values()):  # type: ignore[index]
        for path in (unpacked / name).rglob("*.py"):
            path.unlink()
    return unpacked


def main(arguments: list[str] | None = None) -> int:
    """Check a release; the exit code is 1 with the first fault."""
    p = argparse.ArgumentParser(description="Build and check a release.")
    p.add_argument("--out", type=Path, default=ROOT / "dist")
    p.add_argument("--tag", help="of the release, v0.1.0")
    p.add_argument("--python", action="append", default=[], help="may be repeated (default: this one)")
    p.add_argument("--tests", nargs="*", default=list(_TESTS), help="none: no tests but a gradient and the demo")
    options = p.parse_args(arguments)
    try:
        texts = {name: (ROOT / name).read_text("utf-8") for name in _VERSIONS}
        check_version(options.tag or tag_of(ROOT), check_agreement(texts), texts["CHANGELOG.md"])
        shutil.rmtree(options.out, ignore_errors=True)
        run(sys.executable, "-m", "build", "--outdir", options.out, ROOT)
        (wheel,), (sdist,) = options.out.glob("*.whl"), options.out.glob("*.tar.gz")
        run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
        run(Path(sys.executable).with_name("check-wheel-contents"), wheel)
        print(
            f"{wheel.name}: {check_contents(wheel)} files, {wheel.stat().st_size / 2**20:.1f} MB; {sdist.name}: {sdist.stat().st_size / 2**20:.1f} MB"
        )
        with tempfile.TemporaryDirectory() as name:
            source = without_packages(sdist, Path(name))
            for python in options.python or [sys.executable]:
                print(check_wheel_alone(python, wheel, source, options.tests))
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
