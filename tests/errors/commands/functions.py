"""Functions for the command lines in this folder."""

import retrograd as rg
from retrograd import Array, fixed, reversible

count = 3


def plain(x):
    return x


@reversible
def add(total: fixed, x: fixed):
    total += x


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


@reversible
def dot(y: fixed, a: Array[fixed, "n"], b: Array[fixed, "n"]):
    y += rg.sum(a * b)


@reversible
def scale(y: fixed, x: fixed):
    y += x * y


@reversible
def misspelled(y: fixed):
    y += offset


class Pair:
    @reversible
    def swap(self, x: fixed, y: fixed):
        x, y = y, x
