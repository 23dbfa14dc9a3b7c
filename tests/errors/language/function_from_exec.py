from retrograd import fixed, reversible

namespace = {"fixed": fixed}
exec("def f(y: fixed):\n    y += 1\n", namespace)
reversible(namespace["f"])(0.0)
