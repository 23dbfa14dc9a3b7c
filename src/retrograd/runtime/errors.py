"""Kinds of errors of numbers and of files of numbers."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0504", "malformed data file", "The contents of the file do not have its type, which is the type after the comma or that of its suffix.",
     "Give the type after a comma, as in FILE,u32be, or correct the contents."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
    ("RG0606", "words would be rounded", "A word may have more bits than the 53 of a float64, so that float64s would not give the same words again.",
     "Write a form that holds words: numpy.savez, or the types npy, textq and word of memory files."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of functions that are run.

register(
    ("RG0808", "statement for the host failed", "Python executes the statements in `with rg.external():`, and one of them raised an exception.",
     "Correct the statement. It receives the variables as Python numbers and NumPy arrays."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of work that is distributed.

register(
    ("RG1501", "no such executor", "Tasks run on an executor of `concurrent.futures`, on a client of Dask, or on a number of processes.",
     "executor = 4, ProcessPoolExecutor(4), distributed.Client(…) or \"tcp://HOST:PORT\"."),
    ("RG1502", "scheduler out of reach", "The scheduler does not answer at this address, has gone away, or has no workers.",
     "Start `dask scheduler` and `dask worker ADDRESS`, and name the scheduler's address. A store keeps all finished tasks."),
    ("RG1503", "task lost too often", "The worker of a task ended before the task did, and so did each worker that repeated it.",
     "Look at the workers' memory limits. A store keeps all finished tasks."),
    ("RG1504", "workers of another version", "Another version of Retrograd may give other counts, so its results are not mixed with ours.",
     "Install the same version on all workers."),
    ("RG1505", "task that cannot be sent", "Another process finds a Python function by its module and name. Lambdas and functions within functions have no such name.",
     "Define the function at the top of a module that the workers can import."),
    ("RG1506", "not a store of tasks", "The results of tasks are kept in an SQLite file of their own, each under a hash of all its inputs.",
     "Name a new file, or a file that this version wrote."),
    ("RG1507", "worker failed", "A worker raised an exception that is no error of the task: a package is missing there, or memory has run out.",
     "Install the same packages on all workers, and make tasks smaller: chunk = N."),
    ("RG1508", "work that is not distributed", "Tasks hold code and numbers. Statements for the host run where the call is made.",
     "Leave out executor, store and out for this call."),
    ("RG1509", "chunks of arrays", "Arrays in chunks lie along axis 0, one row for each element of the batch, and results are written in the same form.",
     "Name a new folder, or a folder of the same call; a name that ends in .zarr makes an archive of Zarr."),
    ("RG1510", "script without a main guard", "A new process imports the script. Statements at its top run there, too, and would start processes without end.",
     "Call it below `if __name__ == \"__main__\":`."),
)  # fmt: skip
