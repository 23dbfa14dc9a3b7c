import retrograd as rg


class Shape:
    pass


@rg.data
class Circle(Shape):
    radius: rg.fixed
