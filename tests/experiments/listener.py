"""What a sweep tells, collected; and what of its records does not depend on when and where they were made."""

from neuronal.experiments.sweep import Watch


class Listener(Watch):
    def __init__(self):
        self.started, self.trained, self.reused, self.epochs, self.aside = [], [], [], [], []

    def cell_started(self, cell):
        self.started.append((cell.recipe.family, cell.seed))

    def epoch_ended(self, cell, epoch):
        self.epochs.append(epoch.number)

    def cell_ended(self, record, *, reused):
        (self.reused if reused else self.trained).append((record.recipe.family, record.seed))

    def set_aside(self, file, reason):
        self.aside.append((file, reason))


def numbers(record):
    return (
        record.recipe.fingerprint(),
        record.seed,
        record.metrics,
        record.epochs,
        record.probes,
        record.data,
        record.failure,
    )
