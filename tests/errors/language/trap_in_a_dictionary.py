from retrograd import fixed, reversible
from retrograd.library.dictionaries import Dictionary, empty_dictionary, insert


@reversible
def f(d: Dictionary, a: fixed, b: fixed):
    insert(d, 1, a)
    insert(d, 1, b)


f(empty_dictionary(3), 1.0, 2.0)
