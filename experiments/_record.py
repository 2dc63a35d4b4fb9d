"""What studies share: records that are not computed twice, and tables of text."""

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
            said = {k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}
            print(*job.values(), said, flush=True)


def timed_fit(model, *data, **supervision):
    """Fit a model, and return it with the seconds that took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Wrong answers, few samples and old defaults are what is studied; MDaML rightly warns of
        # what they do, a thousand times in one run. The records show what came of it.
        warnings.simplefilter("ignore")
        model.fit(*data, **supervision)
    return model, time.perf_counter() - start


def table(head, rows):
    """Return the lines of a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, cells)) + " |" for cells in lines]
