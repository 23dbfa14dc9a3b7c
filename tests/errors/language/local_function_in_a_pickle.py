import pickle

from retrograd import fixed, reversible


def make(rate):
    @reversible
    def grow(y: fixed, x: fixed):
        y += x * rate

    return grow


pickle.dumps(make(0.5))
