"""What studies share: records that are not computed twice, and tables of text."""

import re
import time
import warnings

from mdaml.experiments.records import appending, read_records


def resume(path, jobs, do):
    """Do the jobs that have no record yet, and append one line for each as soon as it is done.

    A job is a dict of plain values, its record the same with what ``do(**job)`` returns.
    """
    with appending(path) as append:
        records = read_records(path)
        for job in jobs:
            if any(job.items() <= record.items() for record in records):
                continue
            result = do(**job)
            append({**job, **result})
            shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}
            print(*job.values(), shown, flush=True)


def timed_fit(model, *data, **supervision):
    """Fit a model; return it, and the seconds of the fit."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Studies use wrong answers, few samples and old defaults on purpose. MDaML rightly warns of
        # them, a thousand times in one run; the records show the effect.
        warnings.simplefilter("ignore")
        model.fit(*data, **supervision)
    return model, time.perf_counter() - start


def label(name):
    """Return the name of a method in tables and figures; records keep the call.

    >>> label('MDaML(goal="neighbors") against Eq. (7), K=1')
    'MDaML (ours), goal="neighbors" against MDaML (paper), K=1'
    """
    name = str(name).replace("Eq. (7)", "MDaML (paper)")
    name = re.sub(r"\bMDaML\(([^)]+)\)", r"MDaML (ours), \1", name)
    return re.sub(r"\bMDaML\(\)|^MDaML$", "MDaML (ours)", name)


def table(head, rows):
    """Return the lines of a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(label, cells)) + " |" for cells in lines]
