from retrograd import fixed, reversible


@reversible
async def f(y: fixed):
    y += 1


f(0.0)
