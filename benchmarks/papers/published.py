"""Published measurements, in seconds and bytes.

The files `benchmarks/data/*.dat` and `benchmarks/Tapenade` of github.com/GiggleLiu/nilangpaper, which are the data of J.-G. Liu, T. Zhao,
Differentiate Everything with a Reversible Embedded Domain-Specific Language (arXiv 2003.04617, 2020). Their times are the least of many, in
float64 on a processor of that time; with `GPU` on an Nvidia Titan V.
"""

from __future__ import annotations

SOURCE = "J.-G. Liu, T. Zhao, arXiv 2003.04617 (2020): the data files of github.com/GiggleLiu/nilangpaper"

#: ADBench's file -> nanoseconds of Julia's value, NiLang's, ForwardDiff's Jacobian, NiLang's, and NiLang's on a GPU
_BUNDLES = {
    "ba1_n49_m7776_p31843": (2.026858e6, 2.708616e6, 6.2351517e7, 1.6642686e7, 135417.0),
    "ba4_n372_m47423_p204472": (1.2941305e7, 1.7408897e7, 5.07299418e8, 1.07867002e8, 432870.0),
    "ba7_n93_m61203_p287451": (1.8158784e7, 2.439774e7, 7.23045968e8, 1.56572483e8, 599736.0),
    "ba10_n1197_m126327_p563734": (3.5655796e7, 4.8513153e7, 1.480796803e9, 3.27473771e8, 1.734682e6),
    "ba13_n245_m198739_p1091386": (6.9152938e7, 9.4058235e7, 2.860599212e9, 6.55278289e8, 2.860537e6),
    "ba16_n1544_m942409_p4750193": (3.01528691e8, 4.16826345e8, 1.3129468617e10, 2.913111599e9, 1.0206055e7),
    "ba19_n4585_m1324582_p9125125": (6.53319288e8, 8.06563658e8, 2.5424076612e10, 5.505565395e9, 2.1785917e7),
}  # fmt: skip
#: the same files -> seconds of Tapenade's value and Jacobian
_BUNDLES_TAPENADE = {
    "ba1_n49_m7776_p31843": (1.631984e-03, 1.939888e-02),
    "ba4_n372_m47423_p204472": (1.055572e-02, 1.255456e-01),
    "ba7_n93_m61203_p287451": (1.539545e-02, 1.769343e-01),
    "ba10_n1197_m126327_p563734": (2.926825e-02, 3.489321e-01),
    "ba13_n245_m198739_p1091386": (5.687387e-02, 6.720193e-01),
    "ba16_n1544_m942409_p4750193": (2.481471e-01, 2.934607e00),
    "ba19_n4585_m1324582_p9125125": (4.780338e-01, 6.026951e00),
}
#: (d, K) of 10,000 points -> nanoseconds of Julia's value, NiLang's, ForwardDiff's gradient (0: not measured), NiLang's
_MIXTURES = {
    (2, 5): (3.83754e6, 3.358554e6, 1.2909681e7, 8.192919e6),
    (10, 5): (5.319805e6, 1.1724888e7, 1.552046079e9, 3.267277e7),
    (2, 200): (1.31960247e8, 9.9571582e7, 1.8913947211e10, 2.65457581e8),
    (10, 50): (5.2461433e7, 1.10700704e8, 1.6368854226e11, 3.12088261e8),
    (64, 5): (2.2484553e7, 7.0378987e7, 0.0, 5.98191769e8),
    (64, 10): (4.5669777e7, 1.42942147e8, 0.0, 1.189255426e9),
    (64, 25): (1.13210568e8, 3.74123333e8, 0.0, 3.093751001e9),
    (64, 200): (2.837427727e9, 5.199189926e9, 0.0, 2.740623424e10),
}
#: the same -> seconds of Tapenade's value and gradient
_MIXTURES_TAPENADE = {
    (2, 5): (1.483597e-03, 5.483722e-03),
    (10, 5): (3.747305e-03, 1.433788e-02),
    (2, 200): (4.835664e-02, 2.204811e-01),
    (10, 25): (1.793673e-02, 7.389439e-02),
}
#: the same -> bytes that Julia's value, NiLang's and NiLang's gradient allocate
_MIXTURE_BYTES = {
    (2, 5): (1648.0, 7168.0, 336624.0),
    (10, 5): (6336.0, 21280.0, 1.655248e6),
    (2, 200): (48736.0, 184688.0, 730464.0),
    (10, 50): (57392.0, 186096.0, 2.087664e6),
    (64, 5): (171664.0, 517184.0, 1.1624464e7),
    (64, 10): (341808.0, 1.031424e6, 1.3001744e7),
    (64, 25): (852304.0, 2.574592e6, 1.7134432e7),
    (64, 200): (6.808144e6, 2.0574896e7, 6.534128e7),
}
#: dimensions -> nanoseconds of NiLang's value, uncall, gradient and Hessian, Julia's value, ForwardDiff's gradient and Hessian, Zygote's
#: gradient, ReverseDiff's gradient, and its Hessian with ForwardDiff
_EMBEDDINGS = {
    1: (6083.8, 6087.0, 13162.0, 194162.0, 4350.571, 7285.333, 38937.0, 525620.0, 20705.0, 732105.0),
    2: (6971.4, 6522.8, 14222.0, 439824.0, 4542.143, 15664.0, 242208.0, 544225.0, 28230.0, 1.920058e6),
    3: (7017.75, 7030.75, 15206.0, 719769.0, 4608.571, 29747.0, 1.209273e6, 559324.0, 39855.0, 3.632705e6),
    4: (7419.25, 7413.25, 16565.0, 1.009246e6, 4690.833, 44029.0, 2.456444e6, 568781.0, 45822.0, 6.016229e6),
    5: (7726.0, 7816.0, 17085.0, 1.348026e6, 4765.167, 61662.0, 4.470107e6, 582684.0, 53107.0, 8.748126e6),
    6: (8254.667, 8246.667, 18480.0, 1.715906e6, 4955.0, 71665.0, 7.198349e6, 594029.0, 60451.0, 1.1831757e7),
    7: (8601.0, 8479.0, 19747.0, 2.115255e6, 5144.833, 89731.0, 1.3417855e7, 605233.0, 68253.0, 1.5778554e7),
    8: (9022.0, 8998.0, 20597.0, 2.568404e6, 5218.5, 115032.0, 1.9932123e7, 622709.0, 76506.0, 2.0239236e7),
    9: (9547.0, 9544.0, 21802.0, 3.041459e6, 5398.0, 145288.0, 2.9178911e7, 639041.0, 86514.0, 2.5574921e7),
    10: (10327.0, 10002.0, 22783.0, 3.600093e6, 5609.8, 174996.0, 4.0389713e7, 649449.0, 96660.0, 3.2141233e7),
}  # fmt: skip
#: nanoseconds of Julia's value, NiLang's, NiLang's gradient
_SPARSE = {"real": (349271.0, 467509.0, 582059.0), "complex": (80046.0, 93324.0, 221406.0)}
#: nanoseconds of Julia's value, NiLang's; ForwardDiff's derivative, NiLang's, ReverseDiff's, Zygote's
_BESSEL = (17.739, 52.524, 41.305, 230.818, 7521.0, 22708.0)

Cells = dict[str, float]


def _seconds(names: tuple[str, ...], nanoseconds: tuple[float, ...]) -> Cells:
    return {name: n * 1e-9 for name, n in zip(names, nanoseconds, strict=True) if n}


def bundle(file: str) -> Cells:
    """Bundle adjustment at the size of one of ADBench's files."""
    names = "value, Julia", "value, NiLang", "Jacobian, ForwardDiff", "Jacobian, NiLang", "Jacobian, NiLang, GPU"
    more = dict(zip(("value, Tapenade", "Jacobian, Tapenade"), _BUNDLES_TAPENADE[file], strict=True))
    return _seconds(names, _BUNDLES[file]) | more


#: the files of bundle adjustment, and (d, K) of the mixtures
BUNDLES, MIXTURES = tuple(_BUNDLES), tuple(_MIXTURES)


def mixture(d: int, k: int) -> Cells:
    """The Gaussian mixture of 10,000 points."""
    names = "value, Julia", "value, NiLang", "gradient, ForwardDiff", "gradient, NiLang"
    found = _seconds(names, _MIXTURES.get((d, k), (0.0, 0.0, 0.0, 0.0)))
    if (d, k) in _MIXTURES_TAPENADE:
        found |= dict(zip(("value, Tapenade", "gradient, Tapenade"), _MIXTURES_TAPENADE[d, k], strict=True))
    return found


def mixture_bytes(d: int, k: int) -> Cells:
    """Bytes that the Gaussian mixture of 10,000 points allocates."""
    names = "value, Julia", "value, NiLang", "gradient, NiLang"
    return dict(zip(names, _MIXTURE_BYTES[d, k], strict=True)) if (d, k) in _MIXTURE_BYTES else {}


def embedding(dimensions: int) -> Cells:
    """The embedding of the Petersen graph."""
    names = (
        "value, NiLang", "uncall, NiLang", "gradient, NiLang", "Hessian, NiLang", "value, Julia", "gradient, ForwardDiff",
        "Hessian, ForwardDiff", "gradient, Zygote", "gradient, ReverseDiff", "Hessian, ReverseDiff",
    )  # fmt: skip
    return _seconds(names, _EMBEDDINGS[dimensions])


def sparse(kind: str) -> Cells:
    """Products of sparse matrices of 1000 × 1000, 5 % of the entries not zero."""
    return _seconds(("value, Julia", "value, NiLang", "gradient, NiLang"), _SPARSE[kind])


def bessel() -> Cells:
    """J₂(1)."""
    names = (
        "value, Julia",
        "value, NiLang",
        "gradient, ForwardDiff",
        "gradient, NiLang",
        "gradient, ReverseDiff",
        "gradient, Zygote",
    )
    return _seconds(names, _BESSEL)
