"""Runs functions on ranks: processes forked from this one, which has imported torch already."""
import contextlib
import multiprocessing
import os
import tempfile
import traceback

import torch
import torch.distributed as dist

LIMIT_SECONDS = 120
FORK = multiprocessing.get_context("fork")
torch.set_num_threads(1)


@contextlib.contextmanager
def member(rank, size, file, backend):
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=size)
    try:
        yield
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _be_rank(rank, size, file, backend, body, results):
    try:
        if backend is None:
            value = body(rank, size, file)
        else:
            with member(rank, size, file, backend):
                value = body()
        results.put((rank, value, None))
    except BaseException:
        results.put((rank, None, traceback.format_exc()))


def on_ranks(size, body, backend="accelerate", dying=()):
    """Returns what body() returned on each rank. With backend None, calls body(rank, size, file of a store) instead. Ranks in
    `dying` may die."""
    with tempfile.TemporaryDirectory() as folder:
        results = FORK.SimpleQueue()
        ranks = [FORK.Process(target=_be_rank, args=(rank, size, os.path.join(folder, "store"), backend, body, results))
                 for rank in range(size)]
        for process in ranks:
            process.start()
        values = {}
        while len(values) < size - len(dying):
            if not results._reader.poll(LIMIT_SECONDS):
                for process in ranks:
                    process.kill()
                raise AssertionError(f"ranks {sorted(set(range(size)) - set(values))} did not end")
            rank, value, error = results.get()
            if error:
                for process in ranks:
                    process.kill()
                raise AssertionError(f"rank {rank}: {error}")
            values[rank] = value
        for process in ranks:
            process.join()
        return [values.get(rank) for rank in range(size)]


def same_bits(a, b):
    def bits(tensor):
        return tensor.contiguous().flatten().view(torch.uint8)

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))
