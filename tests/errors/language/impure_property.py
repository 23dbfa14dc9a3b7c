from retrograd import fixed, reversible


class Settings:
    @property
    def rate(self):
        return 0.5


SETTINGS = Settings()


@reversible
def grow(y: fixed, x: fixed):
    y += x * SETTINGS.rate


grow(0.0, 1.0)
