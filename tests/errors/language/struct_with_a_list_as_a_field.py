import retrograd as rg


@rg.struct
class Path:
    points: list[float]
