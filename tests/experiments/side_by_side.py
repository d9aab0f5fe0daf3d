"""Two processes that want the same: what each of them made."""

from multiprocessing import get_context


def made_by_two(target, folder):
    """What two processes with ``target(folder, made)`` put into the queue ``made``, in order of size."""
    context = get_context("spawn")
    made = context.Queue()
    workers = [context.Process(target=target, args=(folder, made)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    made.put(None)
    return sorted(iter(lambda: made.get(timeout=5), None))
