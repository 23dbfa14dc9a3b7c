"""The store of sweeps: whatever lies in the file, rows are those that were written, or the file is refused and left as it is."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.physics.sweeps import Kept, Store
from retrograd.runtime import _distribution

ROWS: dict[str, Kept] = {
    f"{i:064x}": {"technology": "landauer", "version": "1", "temperature": 300.0, "frequency": None, "counts": {"retired": i}, "price": {"total": "x" * i}}
    for i in range(40)
}  # fmt: skip


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store of several pages, closed."""
    path = tmp_path_factory.mktemp("store") / "sweep.db"
    with closing(Store(path)) as store:
        store.keep("f", "Q32.32", 0, ROWS)
    return path.read_bytes()


def used(path: Path) -> str | None:
    """All that is done with a store; why it was refused."""
    try:
        with closing(Store(path)) as store:
            for key, row in ROWS.items():
                assert store.row(key) in (row, None)
            store.keep("g", "Q16.16", 1, {"k": ROWS[f"{3:064x}"]})
            assert store.row("k") == ROWS[f"{3:064x}"]
    except InputError as error:
        return str(error) if error.code == "RG1111" else pytest.fail(str(error))
    return None


def test_rows_are_found_again(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "sweep.db"
    path.write_bytes(whole)
    with closing(Store(path)) as store:
        assert {key: store.row(key) for key in ROWS} == ROWS
        assert store.row("0") is None
    assert used(path) is None


def test_without_a_file_nothing_is_kept() -> None:
    store = Store(None)
    store.keep("f", "Q32.32", 0, ROWS)
    assert store.row(next(iter(ROWS))) is None
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rows SET row = 'no JSON'", "UPDATE rows SET row = '[]'", "UPDATE rows SET row = 3", "UPDATE rows SET row = x'ff00'",
        "UPDATE rows SET row = 1e300", "UPDATE rows SET row = CAST(row AS BLOB)", "UPDATE rows SET row = ''",
        "UPDATE rows SET row = CAST(x'fffe' AS TEXT)", "UPDATE rows SET digest = 3", "UPDATE rows SET digest = x'00'",
        "UPDATE rows SET row = replace(row, '300', '301')", "UPDATE rows SET row = replace(row, 'landauer', 'landaueR')",
        "UPDATE rows SET row = (SELECT row FROM rows ORDER BY key DESC LIMIT 1), digest = (SELECT digest FROM rows ORDER BY key DESC LIMIT 1)",
        "ALTER TABLE rows RENAME COLUMN row TO line", "ALTER TABLE rows DROP COLUMN digest", "DROP TABLE rows", "DROP TABLE sweep",
        "DELETE FROM sweep", "UPDATE sweep SET schema = x'00'", "UPDATE sweep SET schema = 3", "ALTER TABLE sweep RENAME COLUMN schema TO other",
        "ALTER TABLE sweep ADD COLUMN more; DROP TABLE rows; CREATE VIEW rows AS SELECT 1 AS key, 2 AS row, 3 AS digest",
        "CREATE TRIGGER t BEFORE INSERT ON rows BEGIN SELECT RAISE(FAIL, 'no'); END",
    ],
)  # fmt: skip
def test_rows_and_tables_of_other_kinds_are_refused(tmp_path: Path, whole: bytes, change: str) -> None:
    path = tmp_path / "sweep.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as file:
        file.executescript(change)
    assert used(path) is not None


@pytest.mark.parametrize(
    "given", [b"no database at all", b"SQLite format 3\0", b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_what_is_no_database_is_left_as_it_is(tmp_path: Path, given: bytes) -> None:
    path = tmp_path / "sweep.db"
    path.write_bytes(given)
    assert used(path) is not None
    assert path.read_bytes() == given


@pytest.mark.parametrize("name", ["", ".", "no/where.db", "a\0b"])
def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="RG1111"):
        Store(name)
    assert not list(tmp_path.iterdir())


def test_a_name_of_sqlite_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert used(Path(":memory:")) is None
    assert Path(":memory:").is_file()


def damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    match rng.randrange(4):
        case 0:
            del out[rng.randrange(len(out)) :]
        case 1:
            begin = rng.randrange(0, len(out), 4096)
            out[begin : begin + 4096] = rng.randbytes(4096) if rng.random() < 0.5 else bytes(4096)
        case 2:
            # The heads of pages: their kind, how many cells they have, where these begin.
            at = rng.randrange(0, len(out), 4096) + rng.randrange(112)
            out[min(at, len(out) - 1)] = rng.randrange(256)
        case _:
            for _ in range(rng.randint(1, 40)):
                out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def hostile_stores(folder: Path, whole: bytes, seed: int, inputs: int) -> None:
    rng = random.Random(seed)
    path = folder / "sweep.db"
    refused = 0
    for _ in range(inputs):
        path.write_bytes(damaged(whole, rng))
        refused += used(path) is not None
        for other in folder.iterdir():
            other.unlink()
    assert inputs / 4 < refused < inputs


def test_pages_that_were_damaged(tmp_path: Path, whole: bytes) -> None:
    hostile_stores(tmp_path, whole, 0, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_ten_thousand_damaged_files(tmp_path: Path, whole: bytes, seed: int) -> None:
    hostile_stores(tmp_path, whole, seed, 2500)


# ---------------------------------------------------------------------- locked


def test_a_store_that_another_has_locked(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sweep.db"
    path.write_bytes(whole)
    monkeypatch.setattr(_distribution, "PATIENCE", 0.05)
    with closing(Store(path)) as early, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        acts: list[Callable[[], object]] = [
            lambda: Store(path), lambda: early.row("k"), lambda: early.keep("f", "Q32.32", 0, ROWS),
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(InputError, match=r"RG1111.*database is locked"):
                act()
    assert used(path) is None


def test_a_store_waits_until_it_is_free(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sweep.db"
    path.write_bytes(whole)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    waits = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.close()

    monkeypatch.setattr(_distribution.time, "sleep", pause)
    assert used(path) is None
    assert len(waits) == 3


def test_interrupted_while_the_store_is_locked(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts a signal is seen; what was open is closed."""
    path = tmp_path / "sweep.db"
    path.write_bytes(whole)
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*args: object, **how: object) -> sqlite3.Connection:
        opened.append(connect(*args, **how))  # type: ignore[arg-type]
        return opened[-1]

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_distribution.sqlite3, "connect", noted)
    monkeypatch.setattr(_distribution.time, "sleep", interrupt)
    with closing(connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(KeyboardInterrupt):
            rg.energy_sweep(root, [(0.0, 4.0)], store=path)
    with pytest.raises(sqlite3.ProgrammingError):
        opened[0].execute("SELECT 1")


@pytest.mark.long
def test_a_process_that_is_interrupted_while_the_store_is_locked(tmp_path: Path, whole: bytes) -> None:
    """Exit code 130 and one line, long before the patience has an end."""
    path, program, loaded = tmp_path / "sweep.db", tmp_path / "f.py", tmp_path / "loaded"
    path.write_bytes(whole)
    text = "from retrograd import fixed, reversible\n@reversible\ndef f(y: fixed, x: fixed):\n    y += x\n"
    program.write_text(f"{text}open({str(loaded)!r}, 'w').close()\n")
    command = [
        sys.executable,
        "-m",
        "retrograd.cli.main",
        "sweep",
        f"{program}:f",
        "--args",
        "0.0",
        "3.0",
        "--store",
        str(path),
    ]
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        # A process that a shell starts in the background ignores the signal, and so would this one.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        signal.signal(signal.SIGINT, before)
        while not loaded.exists() and process.poll() is None:
            time.sleep(0.05)
        # The store is opened next. On a busy machine one signal may come before; all come long before patience has an end.
        for _ in range(3):
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=12)
                break
    said = f"interrupted: finished parts are in {path}, and the same command goes on from there\n"
    assert (process.returncode, out, err.decode()) == (130, b"", said)
