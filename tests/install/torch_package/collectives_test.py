"""Every collective of the backend `accelerate` beside Gloo's, on the same tensors."""
import ctypes
import datetime
import importlib
import os
import signal
import time
import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import accelerate_cpp_torch
from ranks import on_ranks, same_bits

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
REDUCED = (*FLOATS, torch.int8, torch.uint8, torch.int32, torch.int64)
SHAPES = ((0,), (3, 5), (20_003,))


def filled(shape, dtype, salt=0):
    """A tensor that differs from rank to rank."""
    generator = torch.Generator().manual_seed(dist.get_rank() * 1000 + salt)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


def by_rank(tensor, size):
    return [torch.zeros_like(tensor) for _ in range(size)]


def moves(dtype, shape, group):
    """Results of everything that moves `tensor`, by name."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor, whole = filled(shape, dtype), filled((size * 2, *shape), dtype, 1)
    results = {}

    def note(name, *tensors):
        results[name] = [one.clone() for one in tensors]

    for root in range(size):
        copy = tensor.clone()
        dist.broadcast(copy, root, group=group)
        note(f"broadcast from {root}", copy)
        parts = by_rank(tensor, size) if rank == root else None
        dist.gather(tensor, parts, root, group=group)
        note(f"gather to {root}", *(parts or []))
        part = torch.zeros_like(tensor)
        dist.scatter(part, [filled(shape, dtype, i) for i in range(size)] if rank == root else None, root, group=group)
        note(f"scatter from {root}", part)
    parts = by_rank(tensor, size)
    dist.all_gather(parts, tensor, group=group)
    note("all_gather", *parts)
    together = torch.zeros((size * whole.shape[0], *shape), dtype=dtype)
    dist.all_gather_into_tensor(together, whole, group=group)
    note("all_gather_into_tensor", together)
    even = torch.zeros_like(whole)
    dist.all_to_all_single(even, whole, group=group)
    note("all_to_all_single", even)
    rows = [1 + (rank + peer) % 3 for peer in range(size)]  # The same from a to b as from b to a.
    source, uneven = filled((sum(rows), *shape), dtype, 2), torch.zeros((sum(rows), *shape), dtype=dtype)
    dist.all_to_all_single(uneven, source, rows, rows, group=group)
    note("all_to_all_single, uneven", uneven)
    received = torch.zeros_like(tensor)
    requests = [dist.isend(tensor, (rank + 1) % size, group=group, tag=3), dist.irecv(received, (rank - 1) % size, group=group, tag=3)]
    for request in requests:
        request.wait()
    note("isend and irecv", received)
    received = torch.zeros_like(tensor)
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, (rank + 1) % size, group),
                                           dist.P2POp(dist.irecv, received, (rank - 1) % size, group)]):
        request.wait()
    note("batch_isend_irecv", received)
    return results


def operations(dtype):
    bits = () if dtype.is_floating_point else (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
    return (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX, *bits)


def reductions(dtype, shape, op, group):
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor, whole = filled(shape, dtype), filled((size * 2, *shape), dtype, 1)
    results = {}
    copy = tensor.clone()
    dist.all_reduce(copy, op, group=group)
    results["all_reduce"] = [copy]
    copy = tensor.clone()
    dist.reduce(copy, 0, op, group=group)
    results["reduce"] = [copy] if rank == 0 else []
    part = torch.zeros((2, *shape), dtype=dtype)
    dist.reduce_scatter_tensor(part, whole, op, group=group)
    results["reduce_scatter_tensor"] = [part]
    part = torch.zeros((2, *shape), dtype=dtype)
    dist.reduce_scatter(part, list(whole.split(2)), op, group=group)
    results["reduce_scatter"] = [part]
    return results


def in_order(tensor, op):
    """What the engine promises: in the order of ranks; 16-bit floats are rounded once."""
    parts = by_rank(tensor, dist.get_world_size())
    dist.all_gather(parts, tensor)
    wide = [part.float() if part.dtype in (torch.float16, torch.bfloat16) else part for part in parts]
    total = wide[0]
    for part in wide[1:]:
        total = total + part if op == dist.ReduceOp.SUM else total * part
    return total.to(tensor.dtype)


def compare(ours, theirs, what):
    assert ours.keys() == theirs.keys()
    for name in ours:
        for mine, other in zip(ours[name], theirs[name], strict=True):
            assert same_bits(mine, other), f"{name} {what}: {mine} instead of {other}"


def compare_moves():
    gloo = dist.new_group(backend="gloo")
    for dtype in REDUCED:
        for shape in SHAPES:
            compare(moves(dtype, shape, None), moves(dtype, shape, gloo), f"{dtype} {shape}")


def compare_reductions():
    gloo = dist.new_group(backend="gloo")
    for dtype in REDUCED:
        for shape in SHAPES:
            for op in operations(dtype):
                ours, theirs = reductions(dtype, shape, op, None), reductions(dtype, shape, op, gloo)
                rounds = dtype.is_floating_point and op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT)
                if not rounds or dist.get_world_size() == 2:
                    compare(ours, theirs, f"{op} {dtype} {shape}")
                else:  # Gloo adds in another order.
                    assert same_bits(ours["all_reduce"][0], in_order(filled(shape, dtype), op)), f"{op} {dtype} {shape}"
                    for name in ours:
                        for mine, other in zip(ours[name], theirs[name], strict=True):
                            torch.testing.assert_close(mine, other, rtol=5e-2, atol=5e-2 if mine.itemsize == 2 else 1e-5)


def more_than_gloo():
    """Dtypes and reductions that Gloo refuses or gets wrong."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16):
        mean = torch.full((3,), float(rank), dtype=dtype)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        assert mean.tolist() == [(size - 1) / 2] * 3, mean
    for dtype in (torch.int16, torch.uint64, torch.float8_e4m3fn):
        parts = by_rank(torch.empty(5, dtype=dtype), size)
        dist.all_gather(parts, torch.full((5,), float(rank)).to(dtype))
        assert [part.float().tolist() for part in parts] == [[float(i)] * 5 for i in range(size)]
    short = torch.full((3,), rank, dtype=torch.int16)
    dist.all_reduce(short)
    assert short.tolist() == [size * (size - 1) // 2] * 3
    flags = torch.tensor([True, rank == 0, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    numbers = torch.tensor([1 + rank * 1j])
    dist.all_reduce(numbers)
    assert numbers.tolist() == [size + size * (size - 1) / 2 * 1j]


def objects_and_groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    assert everyone == [{"rank": i, "text": "x" * i} for i in range(size)]
    told = [{"from": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(told, 0)
    assert told == [{"from": 0}]
    part = sorted({0, size - 1})
    group = dist.new_group(part)
    if rank in part:
        assert dist.get_backend(group) == "accelerate"
        number = torch.tensor([rank + 1])
        dist.all_reduce(number, group=group)
        assert number.item() == (size + 1 if size > 1 else 1)
    alone = [dist.new_group([i]) for i in range(size)][rank]
    number = torch.tensor([rank])
    dist.all_reduce(number, group=alone)
    assert number.item() == rank


def coalesced_and_asynchronous():
    rank, size = dist.get_rank(), dist.get_world_size()
    total = float(size * (size + 1) // 2)
    tensors = [torch.full((n,), rank + 1.0) for n in (1, 7, 100_000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert all(tensor.eq(total).all() for tensor in tensors)
    gathered = functional.all_gather_into_tensor_coalesced([torch.full((2,), float(rank)), torch.full((3,), float(rank))], dist.group.WORLD)
    assert [one.tolist() for one in gathered] == [[float(i) for i in range(size) for _ in range(n)] for n in (2, 3)]
    scattered = functional.reduce_scatter_tensor_coalesced([torch.ones(2 * size), torch.ones(size)], "sum", [0, 0], dist.group.WORLD)
    assert [one.tolist() for one in scattered] == [[float(size)] * 2, [float(size)]]
    received = [torch.zeros(1 + i) for i in range(size)]
    dist.all_to_all(received, [torch.full((1 + rank,), float(rank)) for _ in range(size)])
    assert [one.tolist() for one in received] == [[float(i)] * (1 + i) for i in range(size)]
    tensor = torch.full((100_000,), rank + 1.0)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert doubled.wait().eq(2 * total).all() and work.is_completed()


def refusals():
    cases = ((ValueError, "contiguous", lambda: dist.all_reduce(torch.ones(4, 4).t())),
             (ValueError, "no reduction 'band'", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND)),
             (NotImplementedError, "name the source", lambda: dist.recv(torch.ones(2))))
    for kind, text, call in cases:
        with unittest.TestCase().assertRaisesRegex(kind, text):
            call()


def join(rank, size, file):
    dist.init_process_group("accelerate", init_method=f"file://{file}", rank=rank, world_size=size)


def found_again(rank, size, file):
    for _ in range(3):  # torch gives each the same name.
        join(rank, size, file)
        number = torch.ones(1)
        dist.all_reduce(number)
        assert number.item() == size
        dist.destroy_process_group()


def one_dies(rank, size, file):
    join(rank, size, file)
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with unittest.TestCase().assertRaisesRegex(dist.DistBackendError, "rank 1, process .* died"):
        dist.all_reduce(torch.ones(1000))


def late(rank, size, file):
    dist.init_process_group("accelerate", init_method=f"file://{file}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=4))
    if rank == 0:
        with unittest.TestCase().assertRaisesRegex(dist.DistBackendError, "rank 1, process .* has not come"):
            dist.barrier()
    else:
        time.sleep(6)
        with unittest.TestCase().assertRaisesRegex(dist.DistBackendError, "rank 0 gave up"):
            dist.barrier()  # May be over at once: rank 0 has been there.
            dist.barrier()


def on_two_hosts(rank, size, file):
    """A network of its own makes rank 1 another host. Returns whether it could have one."""
    new_user_and_network = 0x50000000
    apart = rank == 0 or ctypes.CDLL(None).unshare(new_user_and_network) == 0
    with unittest.TestCase().assertRaisesRegex(dist.DistBackendError, "rank 1 is on another host.* gloo" if apart else ""):
        join(rank, size, file)
        raise dist.DistBackendError
    return apart


class Collectives(unittest.TestCase):
    def test_moving_is_equal_to_gloo(self):
        for size in (2, 3):
            on_ranks(size, compare_moves)

    def test_reductions_are_equal_to_gloo(self):
        for size in (2, 3):
            on_ranks(size, compare_reductions)

    def test_reductions_that_gloo_lacks(self):
        on_ranks(3, more_than_gloo)

    def test_objects_and_groups(self):
        on_ranks(3, objects_and_groups)

    def test_several_at_once(self):
        on_ranks(2, coalesced_and_asynchronous)
        on_ranks(3, coalesced_and_asynchronous)

    def test_what_cannot_be_is_refused(self):
        on_ranks(2, refusals)

    def test_a_group_of_one(self):
        on_ranks(1, objects_and_groups)

    def test_a_group_can_be_founded_again(self):
        on_ranks(2, found_again, backend=None)

    def test_a_killed_rank_is_an_error_and_no_hang(self):
        on_ranks(3, one_dies, backend=None, dying=[1])

    def test_a_late_rank_is_named(self):
        on_ranks(2, late, backend=None)

    def test_ranks_of_two_hosts_are_refused(self):
        if not all(on_ranks(2, on_two_hosts, backend=None)):
            self.skipTest("this process may not make a network of its own")

    def test_another_torch_is_refused(self):
        built_for, accelerate_cpp_torch._built_for.TORCH = accelerate_cpp_torch._built_for.TORCH, "2.9"
        try:
            with self.assertRaisesRegex(ImportError, "compiled for torch 2.9 and found torch .*install it again"):
                importlib.reload(accelerate_cpp_torch)
        finally:
            accelerate_cpp_torch._built_for.TORCH = built_for


if __name__ == "__main__":
    unittest.main()
