from retrograd import fixed, reversible


@reversible
def f(größe: fixed, δ: fixed):
    größe += δ * unbekannt


f(1.0, 2.0)
