import retrograd as rg


@rg.struct
class Count(int):
    steps: int
