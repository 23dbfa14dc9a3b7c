"""Mutation testing: plant small faults in the product, and run the tests that execute the faulty line.

    python tools/long_runs/mutants.py --each 3      (make mutants)

Cosmic Ray (https://cosmic-ray.readthedocs.io) proposes the faults: another operator, comparison, number or exception, a
loop of no pass. A sample of them, some in each folder, is planted, one at a time, in copies of the tree. Coverage.py records
once which test that is not `long` executes which line; those tests run, the shortest first, until one fails. The other
tests of the mirrored folder follow, which may execute the line in a process that they start. `--seed` draws an earlier
sample again. `--tier default` records and runs the cases of that tier alone: others may kill what survives them.

A mutant that survives needs a verdict in tests/mutants.toml, under its key `file: line → mutated line`: `equivalent` (it
changes no behaviour) or `missed` (it does), with the reason. The command fails if a survivor has no verdict, or if the
tests kill less than 97 % of the mutants that change behaviour.

Coverage and results are kept in build/mutants/ under a digest of the tree: `--seed` resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from retrograd.isa.files import write_file

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mutants"
VERDICTS = ROOT / "tests" / "mutants.toml"
FOLDERS = ("isa", "assembler", "compiler", "simulator", "hdl", "src/retrograd")
#: Python never executes the library, which is compiled; its lines have no coverage
COMPILED = "src/retrograd/library"
#: generated, and compared with their generator by `make docs`
GENERATED = ("isa/constants.py",)
#: share of the mutants that change behaviour which the tests that are not `long` must kill
BAR = 0.97
#: options of pytest for a mutant: one process, to the first failure
OPTIONS = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header")
#: a mutated loop may not end: tests count as failed after LIMIT seconds and SLOWER times their time without a fault
LIMIT, SLOWER = 120.0, 10.0
#: operators left out: `is` in place of `==` for singletons changes nothing, nor does a removed cache; variables are
#: replaced by numbers drawn without a seed
LEFT_OUT = re.compile(r"_Is$|_IsNot$|/ReplaceComparisonOperator_Is|RemoveDecorator|VariableReplacer|VariableInserter")

T = TypeVar("T")
Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One fault: an occurrence of an operator of Cosmic Ray in a file."""

    file: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """The mutant's name, which does not depend on the number of its line."""
        return f"{self.file}: {self.before} → {self.after}"


# ---------------------------------------------------------------------- faults


def not_executed(tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    """The ranges of annotations, and of imports for type checkers."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.arg(annotation=a) | ast.AnnAssign(annotation=a):
                parts = [a]
            case ast.FunctionDef(returns=a):
                parts = [a]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                parts = [node.test, *node.body]
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)  # type: ignore[attr-defined]


def faults(file: str) -> dict[Place, list[tuple[str, int]]]:
    """place -> the (operator, occurrence) that change the code there."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = (ROOT / file).read_text()
    silent = list(not_executed(ast.parse(source)))
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[Place, list[tuple[str, int]]] = {}
    for name in operator_names():
        if LEFT_OUT.search(name):
            continue
        operator = get_operator(name)()
        places = (place for node in nodes for place, _ in operator.mutation_positions(node))
        for occurrence, place in enumerate(places):
            if not any(first <= place < last for first, last in silent):
                found.setdefault(place, []).append((name, occurrence))
    return found


def rank(*parts: object) -> str:
    """A digest to sort by: the draw at one place does not depend on the code elsewhere."""
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()


def of_each_folder(drawn: Iterable[tuple[str, T]], plant: Callable[[T], Mutant | None], each: int) -> list[Mutant]:
    """The first mutants of each folder, `each` of them where the folder has that many, from (file, place) in the order drawn."""
    found: dict[str, Mutant] = {}
    counts: Counter[str] = Counter()
    for file, place in drawn:
        folder = file.rpartition("/")[0]
        mutant = plant(place) if counts[folder] < each else None
        if mutant is not None and mutant.key not in found:
            found[mutant.key] = mutant
            counts[folder] += 1
    return list(found.values())


def sample(each: int, seed: int) -> list[Mutant]:
    """Places of each folder drawn with equal chance, and at each place one operator."""
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *(f"{folder}/*.py" for folder in FOLDERS)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    drawn: list[tuple[str, tuple[str, str, list[tuple[str, int]]]]] = []
    for file in sorted(set(files) - set(GENERATED)):
        lines = (ROOT / file).read_text().splitlines()
        seen: Counter[tuple[str, int]] = Counter()
        for (y, x), operators in sorted(faults(file).items()):
            at = lines[y - 1].strip(), x
            drawn.append((file, (rank(seed, file, *at, seen[at]), file, operators)))
            seen[at] += 1

    def plant(place: tuple[str, str, list[tuple[str, int]]]) -> Mutant | None:
        digest, file, operators = place
        return planted(file, *min(operators, key=lambda found: rank(digest, found[0])))

    return of_each_folder(sorted(drawn, key=lambda found: found[1][0]), plant, each)


def mutated(source: str, operator: str, occurrence: int) -> str | None:
    """The source with the fault in it."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed: str | None = mutate_code(source, get_operator(operator)(), occurrence)
    return changed


def planted(file: str, operator: str, occurrence: int) -> Mutant | None:
    """The mutant; None if the operator leaves the code unchanged, or if the result is not Python."""
    source = (ROOT / file).read_text()
    changed = mutated(source, operator, occurrence)
    if changed is None or changed == source:
        return None
    try:
        compile(changed, file, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    line, before, after = next((n, x.strip(), y.strip()) for n, (x, y) in enumerate(pairs, 1) if x != y)
    return Mutant(file, operator, occurrence, line, before, after)


def in_function(mutant: Mutant) -> bool:
    """Whether the line is in the body of a function, or in a lambda's."""
    for node in ast.walk(ast.parse((ROOT / mutant.file).read_text())):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            first = node.body[0].lineno if isinstance(node, ast.FunctionDef) else node.body.lineno
            if first <= mutant.line <= (node.end_lineno or first) and (
                isinstance(node, ast.FunctionDef) or first > node.lineno
            ):
                return True
    return False


# ---------------------------------------------------------------------- which tests


class Coverage:
    """Which tests execute a line, and how long they take."""

    def __init__(self, folder: Path, tier: str, jobs: int) -> None:
        import coverage

        data, log = folder / f"coverage-{tier}", folder / f"durations-{tier}.txt"
        if not log.is_file():
            self._record(data, log, tier, jobs)
        self.data = coverage.CoverageData(str(data))
        self.data.read()
        lines = (re.match(r"\s*([\d.]+)s (?:call|setup) +(tests/.*)", line) for line in log.read_text().splitlines())
        self.seconds: dict[str, float] = {}
        for found in filter(None, lines):
            self.seconds[found[2]] = self.seconds.get(found[2], 0.0) + float(found[1])
        if not self.seconds:
            raise SystemExit(f"{log}: no test ran")

    @staticmethod
    def _record(data: Path, log: Path, tier: str, jobs: int) -> None:
        print("recording which test executes which line …", flush=True)
        settings = data.with_name("coveragerc")
        write_file(settings, f"[run]\nsource = {','.join(FOLDERS)}\ndata_file = {data}\n")
        command = ["pytest", "-q", *["--" + tier] * (tier != "default"), "-m", "not long", "-n", str(jobs), "--cov", f"--cov-config={settings}", "--cov-context=test",
                   "--cov-report=", "--durations=0", "--durations-min=0", "-vv", "--no-header"]  # fmt: skip
        run = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        write_file(log, run.stdout)
        if run.returncode:
            log.rename(log.with_suffix(".failed"))
            raise SystemExit(f"the tests fail without a fault:\n{run.stdout[-4000:]}")

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that execute the line, the shortest first; then the other tests of the mirrored folder.

        All tests for a line whose tests are not known: it runs at import, during collection, or in a process that a test starts.
        Those that execute another line of the file come first.
        """
        lines = self.data.contexts_by_lineno(str(ROOT / mutant.file))
        used = {context.rsplit("|", 1)[0] for found in lines.values() for context in found if context}
        contexts = lines.get(mutant.line, [])
        tests = executing = {context.rsplit("|", 1)[0] for context in contexts if context}
        if mutant.file.startswith(COMPILED):
            tests = {test for test in self.seconds if test.startswith("tests/library")}
        elif not tests or "" in contexts or not in_function(mutant):
            tests = set(self.seconds)
        folder = mutant.file.removeprefix("src/retrograd/").rpartition("/")[0]
        near = {test for test in self.seconds if folder and test.startswith(f"tests/{folder}/")}
        return sorted(
            tests | near, key=lambda t: (t not in executing, t not in used, t not in near, self.seconds.get(t, 0), t)
        )


# ---------------------------------------------------------------------- running them


class Copy:
    """A copy of the tree in which faults are planted. Python finds it before the installed package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        for file in filter(None, files):
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            write_file(self.folder / file, (ROOT / file).read_bytes())
        subprocess.run(["make", "-s", "build/tree/retrograd"], cwd=self.folder, check=True)
        self.code = folder / "code"
        self.environment = {
            **os.environ, "PYTHONPATH": str(self.folder / "build" / "tree"), "RETROGRAD_CACHE": str(self.code),
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def _pytest(self, names: Path, limit: float, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *more, f"@{names}"],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit, check=False,
        )  # fmt: skip

    def verdict(self, mutant: Mutant, tests: list[str], limit: float) -> dict[str, object]:
        """Plant the fault, run the tests until one fails, and remove the fault."""
        path = self.folder / mutant.file
        source = path.read_text()
        changed = mutated(source, mutant.operator, mutant.occurrence)
        assert changed is not None
        names = self.folder.parent / "tests.txt"
        write_file(names, "\n".join(tests))
        try:
            write_file(path, changed)
            run = self._pytest(names, limit)
            killed, output = run.returncode != 0, run.stdout
        except subprocess.TimeoutExpired:
            killed, output = True, "FAILED (no end)"
        finally:
            write_file(path, source)
            shutil.rmtree(self.code, ignore_errors=True)
        # A fault may prevent collection. It counts as found only if the tests are collected without it.
        if "no tests ran" in output and self._pytest(names, limit, "--collect-only").returncode:
            raise SystemExit(f"the tests of {mutant.key} cannot be collected")
        by = re.search(r"^(?:FAILED|ERROR) (.*)$", output, re.MULTILINE)
        return {
            "key": mutant.key, **asdict(mutant), "outcome": "killed" if killed else "survived", "tests": len(tests),
            "by": by[1] if by else output[-400:] if killed else "",
        }  # fmt: skip


def run_all(mutants: list[Mutant], covered: Coverage, kept: Path, jobs: int) -> list[dict[str, object]]:
    """The result of each mutant; results in `kept` are used again."""
    results: dict[str, dict[str, object]] = json.loads(kept.read_text()) if kept.is_file() else {}
    left = [mutant for mutant in mutants if mutant.key not in results]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for i in range(jobs):
            (Path(folder) / str(i)).mkdir()
            copies.put(Copy(Path(folder) / str(i)))

        def one(mutant: Mutant) -> dict[str, object]:
            copy = copies.get()
            try:
                tests = covered.tests(mutant)
                return copy.verdict(
                    mutant, tests, LIMIT + SLOWER * sum(covered.seconds.get(test, 0.0) for test in tests)
                )
            finally:
                copies.put(copy)

        for finished in as_completed([pool.submit(one, mutant) for mutant in left]):
            result = finished.result()
            key = str(result.pop("key"))
            results[key] = result
            write_file(kept, json.dumps(results, indent=1, ensure_ascii=False))
            print(f"{len(results):4} {result['outcome']:9} {key}  {result['by']}"[:240], flush=True)
    return [results[mutant.key] for mutant in mutants]


def summary(results: list[dict[str, object]], verdicts: dict[str, dict[str, str]]) -> tuple[list[str], bool]:
    """Lines to print; whether the bar is met and each survivor has a verdict."""
    survivors = [f"{r['file']}: {r['before']} → {r['after']}" for r in results if r["outcome"] == "survived"]
    unknown = [key for key in survivors if key not in verdicts]
    equivalent = [key for key in survivors if verdicts.get(key, {}).get("verdict") == "equivalent"]
    changing = len(results) - len(equivalent)
    killed = len(results) - len(survivors)
    share = killed / changing if changing else 0.0
    lines = [f"{verdicts.get(key, {}).get('verdict', 'no verdict'):10}  {key}" for key in survivors]
    lines.append(
        f"{killed} of {changing} mutants that change behaviour killed ({share:.1%}); {len(equivalent)} equivalent"
    )
    return lines, not unknown and share >= BAR


def tree_digest() -> str:
    """The digest of the product and its tests, for which coverage and results are valid."""
    digest = sha256()
    for folder in (*FOLDERS, "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> int:
    """Run the sample; returns 0 if the bar is met and each survivor has a verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=3, help="mutants in each folder (%(default)s)")
    parser.add_argument("--seed", type=int, help="which sample (another one in each run)")
    parser.add_argument("--tier", choices=("default", "full", "everything"), default="everything", help="of the cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (%(default)s)")
    parser.add_argument("--list", action="store_true", help="print the sample and stop")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    print(f"--seed {seed}", flush=True)
    mutants = sample(arguments.each, seed)
    if arguments.list:
        print("\n".join(mutant.key for mutant in mutants))
        return 0
    kept = KEPT / tree_digest()
    kept.mkdir(parents=True, exist_ok=True)
    covered = Coverage(kept, arguments.tier, arguments.jobs)
    results = run_all(mutants, covered, kept / f"results-{arguments.tier}.json", arguments.jobs)
    lines, held = summary(results, tomllib.loads(VERDICTS.read_text()) if VERDICTS.is_file() else {})
    print("\n".join(lines))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
