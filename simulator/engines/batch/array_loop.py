"""Batch loop on a CPU: rows are read from arrays of the caller, and results are written into arrays of the caller.

    word  :=  round(real · 2^F), ties to even        before the run, where an array has real numbers
    real  :=  word · 2^−(F + scale)                  after the run

Both are those of `values/conversions.py`, bit for bit: scaling by a power of two is exact, and the two roundings are those of IEEE 754.
A real number that has no word (NaN, out of range) is refused: its instance does not run.
A float64 has 53 bits: an array of numbers is marked where an integer beyond ±2^53 was rounded.
"""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.instance_loop import PENDING, REFUSED, REPORT, InstanceLoop
from retrograd.simulator.engines.batch.layout import ARRAY, ARRAYS_HEAD, KINDS
from retrograd.simulator.engines.batch.results import EXACT
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.types import DOUBLE, I64, POINTER, Type, integer


def emit_array_loop(module: ModuleBuilder, w: Format, instance: str, name: str) -> None:
    """Define the function that runs `instance`, a translation, for many:

        name(arrays, first, last, shared, n, M, limit, status, sums, stop)

    `arrays` is a `layout.array_table`; `shared` is a memory of n words, and M is room for a memory and a spare word.
    Of the instances from `first` up to `last`, those whose status is PENDING run, until the word at `stop` is not 0. Where
    instance i completes, status[i] = 0, and its kept words are written; status[i] = 1 where it does not, REFUSED where a number that
    it is given has no word. Each summed word has two numbers in `sums`, see `exact_sums`.
    """
    ArrayLoop(module, w, instance, name).define()


class ArrayLoop(InstanceLoop):
    """The batch loop under construction. LaneLoop (lane_loop.py) runs several instances side by side."""

    def _parameters(self) -> dict[str, Type]:
        p = POINTER
        memory = {"shared": p, "n": I64, "M": p, "limit": I64, "status": p, "sums": p, "stop": p}
        return {"arrays": p, "first": I64, "last": I64} | memory

    def define(self) -> None:
        code = self.code
        self.memory = self._pointer("M", self.word)
        self._read_columns()
        good, fits = (code.variable(integer(1), name, 0) for name in ("good", "fits"))
        report = code.variable(I64, "report", count=REPORT)
        last = self.given["last"]
        with (
            code.counting(self.given["first"], 1, lambda i: i.lt(last) & self._goes_on(), "instances") as i,
            code.when(self.status[i].load().eq(PENDING), "enter"),
        ):
            good.store(0)
            self._fill(i, fits)
            with code.when(fits.load(), "run", likely=True):
                with self._words("shared") as (address, _):
                    self._copy(self.shared[address], self._place(address))
                self._run(i, good, report)
                self._report(i, report, 1)
                with code.when(good.load(), "keep"):
                    self._keep(i)
                    self._add_all()
        code.ret()

    def _goes_on(self) -> Value:
        """Whether the host has not set `stop`."""
        return self._pointer("stop", I64).load(volatile=True).eq(0)

    def _add_all(self) -> None:
        """Add the words that are summed."""
        with self._words("summed") as (address, column):
            self._add(self._halves(address), column)

    # ------------------------------------------------------------------ the table

    def _read_columns(self) -> None:
        self.table = self._pointer("arrays", I64)
        self.counts = {kind: self.table[k].load() for k, kind in enumerate(KINDS)}
        #: addresses of the arrays of steps, lost words and cycles; 0 for an array that is not kept
        self.reports = [self.table[len(KINDS) + k].load() for k in range(REPORT)]
        at = self.code.constant(I64, ARRAYS_HEAD)
        for kind in KINDS:
            self.firsts[kind] = at
            at = at + self.counts[kind] * (ARRAY if kind in ("given", "kept") else 2)

    def _report(self, i: Value, report: Pointer, stride: int) -> None:
        """Write the numbers that an instance reports into their arrays."""
        steps, *others = self.reports
        steps.of(I64)[i].store(report[0].load())
        for k, numbers in enumerate(others, 1):
            with self.code.when(numbers.ne(0), "reported", likely=False):
                numbers.of(I64)[i].store(report[k * stride].load())

    # ------------------------------------------------------------------ rows

    def _array(self, kind: str, k: Value) -> Pointer:
        """The entry of the table for the k-th array of a kind."""
        return self.table[self.firsts[kind] + k * ARRAY]

    def _fill(self, i: Value, fits: Pointer) -> None:
        """Copy the words that instance i is given to its memory. `fits`: whether all its numbers have words; else it is refused."""
        code, t = self.code, self.word
        fits.store(1)
        with code.loop(self.counts["given"], "given.ranges") as k:
            entry = self._array("given", k)
            address, count, base, stride, step, scale = (entry[j].load() for j in range(6))
            row = base + i * stride
            reals, words, after = code.block("reals"), code.block("words"), code.block("filled")
            code.branch(scale.ne(0), reals, words)
            code.start(words)
            with code.loop(count, "word") as j:
                self._place(address + j).store((row + j * step).of(I64).load().to(t), t.bits // 8)
            code.jump(after)
            code.start(reals)
            with code.loop(count, "real") as j:
                scaled = (row + j * step).of(DOUBLE).load() * scale.convert("bitcast", DOUBLE)
                rounded = code.intrinsic("rint", scaled)
                low, high = -float(self.w.sign), float(self.w.sign)
                inside = code.compare("sge", rounded, low) & rounded.lt(high)
                word = inside.select(rounded, code.constant(DOUBLE, 0.0)).convert("fptosi", I64)
                self._place(address + j).store((word & self.w.mask).to(t), t.bits // 8)
                fits.store(fits.load() & inside)
            code.start(after)
        with code.unless(fits.load(), "refuse"):
            self.status[i].store(REFUSED)

    def _keep(self, i: Value) -> None:
        """Write the words that are kept of instance i, or their numbers, to its row."""
        code = self.code
        with code.loop(self.counts["kept"], "kept.ranges") as k:
            entry = self._array("kept", k)
            address, count, words, stride, reals, scale = (entry[j].load() for j in range(6))
            exact, rounded, after = code.block("words"), code.block("numbers"), code.block("kept")
            code.branch(words.ne(0), exact, rounded)
            code.start(exact)
            with code.loop(count, "word") as j:
                (words + i * stride).of(I64)[j].store(self._word(address + j).to(I64))
            code.start(rounded)
            with code.when(reals.ne(0), "numbers"), code.loop(count, "number") as j:
                integer_ = self._word(address + j).to(integer(self.w.width)).to(I64, "sext")
                real = integer_.convert("sitofp", DOUBLE) * scale.convert("bitcast", DOUBLE)
                reals.of(DOUBLE)[i * count + j].store(real)
                if self.w.width > EXACT:
                    with code.when((integer_ + (1 << EXACT)).gtu(2 << EXACT), "large", likely=False):
                        self._array("kept", k)[6].store(1)
            code.start(after)

    def _word(self, address: Value) -> Value:
        return self._place(address).load(self.word.bits // 8)
