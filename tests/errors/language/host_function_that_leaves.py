from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += exit(3)


f(0.0)
