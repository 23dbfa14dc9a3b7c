"""Dictionaries with open addressing, whose removal of any key is exact: `remove` is the inverse of `insert`.

    insert:  d[key] := value, value := 0            the key is not in d          remove:  value := d[key]; the key leaves d

A table of n places; the probe of a key begins at its home, `home(key)`, and goes on by one place. In each place on the way of two
keys stands the smaller of the two. So a set of keys has one table only, and its order of insertions leaves no trace: undoing an
insertion finds the table that was there before. Source: O. Amble and D. E. Knuth, Ordered hash tables, 1974; that the table is
unique: G. E. Blelloch and D. Golovin, Strongly history-independent hashing, 2007.

Traps: RG0804 for a table that is full, a key that is there already, and the removal of a key that is not there. In formats of less than
32 bits the functions are refused (RG0714), since the hash has a constant of 32 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Dictionary:
    """Integers and the fixed-point number of each, in a table of n places."""

    keys: Array[int, "n"]
    values: Array[fixed, "n"]
    used: Array[bool, "n"]


def empty_dictionary(room: int) -> Dictionary:
    """A dictionary without keys, for up to `room` of them."""
    return Dictionary(np.zeros(room, dtype=int), np.zeros(room), np.zeros(room, dtype=bool))


def dict_of(d: Any) -> dict[int, float]:
    """The keys and values as a dict of Python."""
    return {int(k): float(v) for k, v, used in zip(d.keys, d.values, d.used, strict=True) if used}


@reversible
def home(y: int, key: int, n: int) -> None:
    """y += the place, of n, where the probe of a key begins"""
    y += ((key * 0x9E3779B1) >> 12) % n


@reversible
def full_places(y: int, d: Dictionary, key: int) -> None:
    """y += the number of places from the home of a key to the first that is free. From y = 0 only."""
    n = len(d.keys)
    with rg.routine() as r:
        at = home(key, n)
    while (y < n and d.used[(at + y) % n], y > 0):
        y += 1
    ~r


@reversible
def distance(y: int, d: Dictionary, key: int) -> None:
    """y += the number of places from the home of a key to its own; the number of full places where it is not there. From y = 0 only."""
    n = len(d.keys)
    with rg.routine() as r:
        at = home(key, n)
    while (y < n and d.used[(at + y) % n] and d.keys[(at + y) % n] != key, y > 0):
        y += 1
    ~r


@reversible
def get(y: fixed, d: Dictionary, key: int) -> None:
    """y += d[key]; nothing where the key is not there"""
    with rg.routine() as r:
        i = (home(key, len(d.keys)) + distance(d, key)) % len(d.keys)
    if d.used[i] and d.keys[i] == key:
        y += d.values[i]
    ~r


@reversible
def add(d: Dictionary, key: int, x: fixed) -> None:
    """d[key] += x, for a key that is there. Inverse: d[key] −= x."""
    with rg.routine() as r:
        i = (home(key, len(d.keys)) + distance(d, key)) % len(d.keys)
    assert d.used[i]
    assert d.keys[i] == key
    d.values[i] += x
    ~r


@reversible
def _gaps(gaps: Array[int, "m"], d: Dictionary, key: int, first: int, count: int) -> None:
    """gaps[j] += the last gap up to place j where `key` leaves: its own place, then that of each key that moves up to close the gap before."""
    n = len(d.keys)
    with rg.routine() as r:
        at = home(key, n)
    gaps[first] += first
    for j in range(first + 1, count):
        with rg.routine() as s:
            i = (at + j) % n
            moved = (i - home(d.keys[i], n)) % n
        gaps[j] += j if moved >= j - gaps[j - 1] else gaps[j - 1]
        ~s
    ~r


@reversible
def _last_gap(y: int, d: Dictionary, key: int) -> None:
    """y += the place, counted from the home of a key, that is free once the key has left"""
    with rg.routine() as r:
        gaps = rg.zeros(len(d.keys), dtype=int)
        first, count = distance(d, key), full_places(d, key)
        _gaps(gaps, d, key, first, count)
    y += gaps[count - 1]
    ~r


@reversible
def insert(d: Dictionary, key: int, value: fixed) -> None:
    """d[key] := value, value := 0, for a key that is not there. Inverse: `remove`."""
    n = len(d.keys)
    p = full_places(d, key)
    assert p < n
    moves = rg.zeros(p, dtype=bool)
    at = home(key, n)
    with rg.routine() as r:
        largest = rg.zeros(p + 1, dtype=int)
        largest[0] += key
        for j in range(p):
            largest[j + 1] += max(largest[j], d.keys[(at + j) % n])
    for j in range(p):
        assert d.keys[(at + j) % n] != key
        moves[j] ^= d.keys[(at + j) % n] > largest[j]
    ~r
    carried = key
    for j in range(p):
        i = (at + j) % n
        if moves[j]:
            d.keys[i], carried = carried, d.keys[i]
            d.values[i], value = value, d.values[i]
    last = (at + p) % n
    d.keys[last], carried = carried, d.keys[last]
    d.values[last], value = value, d.values[last]
    d.used[last] ^= True
    del last
    rg.free(carried, 0)
    with rg.routine() as s:
        gaps = rg.zeros(len(d.keys), dtype=int)
        first, count = distance(d, key), full_places(d, key)
        _gaps(gaps, d, key, first, count)
    for j in range(first + 1, count):
        if gaps[j] != gaps[j - 1]:
            moves[gaps[j - 1]] ^= True
    ~s
    del moves
    rg.free(p, _last_gap(d, key))
    with rg.routine() as t:
        place = (at + distance(d, key)) % n
    assert d.used[place]
    assert d.keys[place] == key
    ~t


#: value := d[key], for value = 0 and a key that is there, which leaves. Inverse: `insert`.
remove = insert.inverse


__all__ = ["Dictionary", "add", "dict_of", "empty_dictionary", "get", "insert", "remove"]
