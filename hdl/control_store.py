"""The control store: the microcode as block memories hold it.

    entry of the dispatch memory ─► block of rows ─► references of a row ─► words of the clusters = microword

The nanostore holds each word once (Stritter and Tredennick, "Microprogrammed implementation of a single chip microprocessor", 1978). The fields of
a microword are divided into clusters, each with words of its own, since parts of microwords repeat more often than microwords (Borin, Breternitz,
Wu, Araujo, "Clustering-based microcode compression", ICCD 2006). A microprogram is a sequence of blocks of rows. Equal blocks are stored once, so
microprograms with equal beginnings share them. All references are read ahead, so no row takes an additional cycle.

A column of bits that is constant or equals another column is not stored. A column of the dispatch memory that does not depend on the upper bits of
the address is stored in a memory with fewer words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_

from amaranth.lib import data
from retrograd.hdl.microcode import DISPATCH_BITS, Microcode

#: numbers of rows in a block; the control store uses the number that gives the fewest bits
BLOCKS = (2, 4, 8, 16, 32)
#: Fields of a microword that may form a separate cluster. Each slot except the first may form a cluster, and so may
#: the other fields of
#: the first slot.
PARTS = (("x", "y", "z"), ("commit", "ending"))
#: A dispatch memory has at least 2^9 words: a block RAM of an ECP5 is not wider with fewer (DP16KD, 512 × 36).
LEAST_BITS = 9

Bits = tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """Words without the columns that are constant or equal an earlier one.

    places: of each bit of a word, the number of the stored column; of a constant column, ~0 or ~1.
    """

    places: tuple[int, ...]
    words: tuple[int, ...]

    @cached_property
    def width(self) -> int:
        """Number of stored columns."""
        return max(0, max(self.places, default=0) + 1)

    @cached_property
    def whole(self) -> tuple[int, ...]:
        """The words with all columns."""
        ones = sum(1 << k for k, place in enumerate(self.places) if place == ~1)
        varying = [(k, place) for k, place in enumerate(self.places) if place >= 0]
        return tuple(ones | sum((word >> place & 1) << k for k, place in varying) for word in self.words)


def columns(words: Sequence[int], width: int) -> Columns:
    """The columns of words of this width."""
    some, all_ = reduce(or_, words), reduce(and_, words)
    known: dict[bytes, int] = {}
    places: list[int] = []
    kept: list[int] = []
    for k in range(width):
        if some >> k & 1 == all_ >> k & 1:
            places.append(~(all_ >> k & 1))
            continue
        column = bytes(word >> k & 1 for word in words)
        if column not in known:
            known[column] = len(kept)
            kept.append(k)
        places.append(known[column])
    return Columns(tuple(places), tuple(gather(word, kept) for word in words))


def gather(word: int, bits: Iterable[int]) -> int:
    """The bits of a word at these places, as a word. Inverse: `scatter`."""
    return sum((word >> k & 1) << at for at, k in enumerate(bits))


def scatter(word: int, bits: Iterable[int]) -> int:
    """The bits of a word, brought to these places."""
    return sum((word >> at & 1) << k for at, k in enumerate(bits))


@dataclass(frozen=True)
class Cluster:
    """Some bits of the microword, and their words. Word 0 is zero."""

    bits: Bits
    columns: Columns

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The words, each bit at its place in the microword."""
        return tuple(scatter(word, self.bits) for word in self.columns.whole)

    @property
    def reference(self) -> int:
        """Bits of a reference to a word."""
        return address_bits(len(self.columns.words))


@dataclass(frozen=True)
class DispatchPart:
    """The bits of an entry that do not depend on the address from bit `address` on."""

    address: int
    bits: Bits
    columns: Columns

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """The words, each bit at its place in the entry."""
        return tuple(scatter(word, self.bits) for word in self.columns.whole)


@dataclass(frozen=True)
class ControlStore:
    """The contents of all memories, and how to read them. An entry is the head, then the references to the second row and to the blocks behind it."""

    #: the layout of an entry: head, second, block, following
    entry: data.StructLayout
    dispatch: tuple[DispatchPart, ...]
    clusters: tuple[Cluster, ...]
    #: rows in a block
    block: int
    #: for each row of each block, the references to the words of its clusters, from the lowest bit on
    rows: Columns
    #: Numbers of blocks. `following` of an entry is the place of the second one, and the later ones are behind it.
    blocks: Columns

    @property
    def memories(self) -> Mapping[str, tuple[int, int]]:
        """Number of words and width of each memory."""
        stored = {f"dispatch{k}": part.columns for k, part in enumerate(self.dispatch)}
        stored |= {"blocks": self.blocks, "rows": self.rows}
        stored |= {f"words{k}": cluster.columns for k, cluster in enumerate(self.clusters)}
        return {name: (len(one.words), one.width) for name, one in stored.items()}

    @property
    def bits(self) -> int:
        """Bits of all memories."""
        return sum(words * width for words, width in self.memories.values())

    def dispatched(self, address: int) -> int:
        """The entry at an address of the dispatch memory."""
        return reduce(or_, (part.entries[address & (1 << part.address) - 1] for part in self.dispatch))

    def microword(self, references: int) -> int:
        """The row with these references."""
        found = 0
        for cluster in self.clusters:
            found |= cluster.words[references & (1 << cluster.reference) - 1]
            references >>= cluster.reference
        return found

    def program(self, entry: int) -> Iterator[int]:
        """The rows after the first row of an entry. Their number is not stored: the last row is marked."""
        fields = self.entry.from_bits(entry)
        yield self.microword(fields.second)
        block, following = fields.block, fields.following
        while True:
            yield from (self.microword(self.rows.whole[block * self.block + k]) for k in range(self.block))
            block, following = self.blocks.whole[following % len(self.blocks.words)], following + 1


# -------------------------------------------------------------------- encoding

_made: dict[tuple[Bits, Bits, int], ControlStore] = {}


def control_store(code: Microcode) -> ControlStore:
    """The control store of a microcode with the fewest bits, over all divisions into clusters and all lengths of blocks. It is cached by its contents."""
    key = tuple(code.dispatch), tuple(code.rows), code.microword.size
    if key not in _made:
        _made[key] = _encode(code)
    return _made[key]


def programs(code: Microcode) -> dict[int, Bits]:
    """Address of the second row -> the rows from there to the last one of the microprogram."""
    start, last = code.entry["start"], last_bit(code.microword)
    found: dict[int, Bits] = {}
    for entry in code.dispatch:
        at = begin = entry >> start.offset & (1 << start.width) - 1
        if begin in found:
            continue
        rows: list[int] = []
        while at < len(code.rows) and not (rows and rows[-1] >> last & 1):
            rows.append(code.rows[at])
            at += 1
        found[begin] = tuple(rows)
    return found


def last_bit(microword: data.StructLayout) -> int:
    """The place of the bit that marks the last row."""
    commit = microword["commit"]
    return commit.offset + commit.shape["last"].offset  # type: ignore[no-any-return]


def _encode(code: Microcode) -> ControlStore:
    found = programs(code)
    #: without the second row, which the entry refers to
    behind = {start: rows[1:] for start, rows in found.items()}
    distinct = list(dict.fromkeys((0, *(row for rows in found.values() for row in rows))))
    sizes = {bits: _size(distinct, bits) for bits in _unions(_parts(code.microword))}
    paged = [_paged(behind, block) for block in BLOCKS]
    bits, pages = min(
        ((division, pages) for division in _divisions(_parts(code.microword)) for pages in paged),
        key=lambda found: _cost([sizes[bits] for bits in found[0]], found[1], len(code.dispatch)),
    )
    clusters, rows = _clusters(distinct, bits)
    references = sum(cluster.reference for cluster in clusters)
    entry = data.StructLayout(
        {
            "head": code.head.size,
            "second": references,
            "block": address_bits(len(pages.pages)),
            "following": address_bits(len(pages.blocks)),
        }
    )
    entries = []
    for word in code.dispatch:
        start = word >> code.entry["start"].offset & (1 << code.entry["start"].width) - 1
        second = rows[found[start][0]] if found[start] else 0
        block, following = pages.of[start]
        entries.append(
            word & (1 << code.head.size) - 1
            | second << entry["second"].offset
            | block << entry["block"].offset
            | following << entry["following"].offset
        )
    stored = [rows[row] for page in pages.pages for row in (*page, *[0] * (pages.length - len(page)))]
    blocks = columns(pages.blocks, entry["block"].width)
    return ControlStore(
        entry,
        _dispatch(entries, entry.size, _together(entry, code.head)),
        clusters,
        pages.length,
        columns(stored, references),
        blocks,
    )


def _parts(microword: data.StructLayout) -> list[Bits]:
    """The bits of the smallest clusters."""
    owner = {name: part[0] for part in PARTS for name in part}
    parts: dict[str, list[int]] = {}
    for name, field in microword:
        own = owner.get(str(name), str(name) if str(name).startswith("slot") else "")
        parts.setdefault(own, []).extend(range(field.offset, field.offset + field.width))
    return [tuple(bits) for bits in parts.values()]


def _divisions(parts: Sequence[Bits]) -> Iterator[tuple[Bits, ...]]:
    """All divisions of the parts into clusters."""
    if not parts:
        yield ()
        return
    first, *others = parts
    for division in _divisions(others):
        yield (first, *division)
        for k, cluster in enumerate(division):
            yield (*division[:k], tuple(sorted(first + cluster)), *division[k + 1 :])


def _unions(parts: Sequence[Bits]) -> set[Bits]:
    """All clusters."""
    return {cluster for division in _divisions(parts) for cluster in division}


def _size(rows: Sequence[int], bits: Bits) -> tuple[int, int]:
    """Bits of a reference to a word of these bits, and of all such words."""
    mask = scatter(-1, bits)
    words = {row & mask for row in rows}
    return address_bits(len(words)), len(words) * (reduce(or_, words) & ~reduce(and_, words)).bit_count()


@dataclass(frozen=True)
class _Pages:
    """The blocks of all microprograms."""

    length: int
    pages: Sequence[Bits]
    blocks: tuple[int, ...]
    #: a microprogram -> its first block, and the place of the number of the second
    of: Mapping[int, tuple[int, int]]


def _paged(behind: Mapping[int, Bits], length: int) -> _Pages:
    """Divide rows into blocks. A block that is the beginning of a longer block is not stored."""
    cut = {start: [rows[k : k + length] for k in range(0, len(rows), length)] for start, rows in behind.items()}
    pages: list[Bits] = []
    number: dict[Bits, int] = {(): 0}
    for page in sorted({page for pages in cut.values() for page in pages}, key=len, reverse=True):
        if page not in number:
            for k in range(1, len(page) + 1):
                number.setdefault(page[:k], len(pages))
            pages.append(page)
    blocks: list[int] = []
    places: dict[tuple[int, ...], int] = {(): 0}
    of = {}
    for start, own in cut.items():
        first, *others = [number[page] for page in own] or [0]
        if tuple(others) not in places:
            places[tuple(others)] = len(blocks)
            blocks += others
        of[start] = first, places[tuple(others)]
    return _Pages(length, pages or [(0,)], tuple(blocks or [0]), of)


def _cost(sizes: Sequence[tuple[int, int]], pages: _Pages, entries: int) -> int:
    """Bits of clusters, rows and blocks, and of the references in the entries."""
    references, words = sum(bits for bits, _ in sizes), sum(words for _, words in sizes)
    number, place = address_bits(len(pages.pages)), address_bits(len(pages.blocks))
    rows = len(pages.pages) * pages.length * references + len(pages.blocks) * number
    return words + rows + entries * (references + number + place)


def _clusters(rows: Sequence[int], division: Sequence[Bits]) -> tuple[tuple[Cluster, ...], dict[int, int]]:
    """The clusters, and the references of each row."""
    clusters, references, at = [], dict.fromkeys(rows, 0), 0
    for bits in division:
        mask = scatter(-1, bits)
        number = {word: k for k, word in enumerate(dict.fromkeys(row & mask for row in rows))}
        for row in references:
            references[row] |= number[row & mask] << at
        cluster = Cluster(bits, columns([gather(word, bits) for word in number], len(bits)))
        clusters.append(cluster)
        at += cluster.reference
    return tuple(clusters), references


def _together(entry: data.StructLayout, head: data.StructLayout) -> list[int]:
    """The fields of an entry whose bits stay together, as masks: all fields except references and the first row, whose bits may be anywhere.

    The selections of operands are needed early in a cycle, and bits from distant block RAMs would arrive late.
    """
    return [
        (1 << field.width) - 1 << field.offset + entry["head"].offset for name, field in head if str(name) != "word"
    ]


def _dispatch(entries: Sequence[int], width: int, together: Sequence[int]) -> tuple[DispatchPart, ...]:
    """Each bit of the entries, in the smallest memory that can hold it together with the bits that stay with it."""
    parts = []
    left = (1 << width) - 1
    for address in range(LEAST_BITS, DISPATCH_BITS + 1):
        words = entries[: 1 << address]
        varies = reduce(or_, (word ^ words[at % len(words)] for at, word in enumerate(entries)))
        varies |= reduce(or_, (mask for mask in together if mask & varies), 0)
        bits = tuple(k for k in range(width) if (left & ~varies) >> k & 1)
        if bits:
            parts.append(DispatchPart(address, bits, columns([gather(word, bits) for word in words], len(bits))))
        left &= varies
    return tuple(parts)


def address_bits(words: int) -> int:
    """Bits of an address in a memory."""
    return max(1, (words - 1).bit_length())
