import retrograd as rg


@rg.struct
class Empty:
    pass
