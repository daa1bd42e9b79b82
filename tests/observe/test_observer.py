"""The watch: what it replaces and puts back, threads, processes, transforms, names, memory, and failing programs."""

import asyncio
import copy
import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.modules import module as hooks
from torch.utils.checkpoint import checkpoint
from watched import Seen, assert_explains, uses_torch_jit, watch

from mhaviz.observe import marks, modules
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.mode import Observer


class Attend(nn.Module):
    def __init__(self, by_hand=True, width=8, n_heads=2):
        super().__init__()
        self.by_hand, self.n_heads = by_hand, n_heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        H = (q @ k.mT / 2).softmax(-1) @ v if self.by_hand else F.scaled_dot_product_attention(q, k, v)
        return H.transpose(1, 2).flatten(2)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"attn": Attend(by_hand)}) for by_hand in (True, False))

    def forward(self, x):
        for block in self.blocks:
            x = x + block["attn"](x)
        return x


NAMES = ["blocks.0.attn", "blocks.1.attn"]
X = torch.randn(2, 5, 8)


def _state():
    """All that a watch replaces."""
    from torch._C import _len_torch_function_stack

    stance = sys.modules["torch._dynamo.eval_frame"]._stance.stance if "torch._dynamo" in sys.modules else "default"
    return [
        torch.compile,
        F.scaled_dot_product_attention,
        threading.Thread.start,
        nn.MultiheadAttention.forward,
        nn.TransformerEncoder.forward,
        torch.jit.script,
        dict(hooks._global_forward_hooks),
        dict(hooks._global_forward_pre_hooks),
        _len_torch_function_stack(),
        stance,
    ]


@pytest.fixture(autouse=True)
def _put_back():
    before = _state()
    yield
    assert _state() == before


class _RefusesToBe(nn.Linear):
    """A module that raises when it is compared, counted, or asked whether it is."""

    def __bool__(self):
        raise RuntimeError("no")

    def __len__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = nn.Module.__hash__

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


def test_names():
    model = Blocks()
    assert watch(model, X)[0].names == NAMES
    assert watch(nn.Sequential(nn.Identity(), model), X)[0].names == [f"1.{name}" for name in NAMES]
    seen, _ = watch(lambda: [model(X), model(X)], model=model.blocks[1])
    assert seen.names == ["attn", "attn"]
    assert [one.place.forward for one in seen] == [1, 2]
    refuses = _RefusesToBe(2, 2)
    assert watch(lambda: [refuses(X), refuses(X)])[0].names == ["_RefusesToBe"] * 2
    assert watch(nn.ModuleList([_RefusesToBe(2, 2)])[0], X)[0].names == ["_RefusesToBe"]


def _by_function(x):
    x = x[None]
    return F.scaled_dot_product_attention(x, x, x)


def test_functions_without_modules_are_named_by_their_line():
    assert watch(_by_function, X)[0].names == [
        f"test_observer.py:{_by_function.__code__.co_firstlineno + 2}, _by_function"
    ]


def test_forward_called_directly():
    seen, _ = watch(Attend().forward, X)
    assert seen.names[0].endswith(", forward")
    assert watch(lambda: Blocks().forward(X))[0].names == ["blocks.0.attn", "blocks.1.attn"]


def test_modules_that_raise_have_ended():
    model = Blocks()

    class Fails(nn.Module):
        def forward(self, x):
            model.blocks[0]["attn"](x)
            raise ValueError("the program's")

    fails = Fails()

    def program():
        for _ in range(2):
            with pytest.raises(ValueError, match="the program's"):
                fails(X)
        return model(X)

    seen, _ = watch(program)
    assert seen.names[-2:] == NAMES
    assert [one.place.forward for one in seen] == [1, 2, 3, 3]


def test_exceptions_pass_through_and_everything_is_put_back():
    before = _state()
    with pytest.raises(KeyboardInterrupt), Observer(lambda observed: None).watching():
        raise KeyboardInterrupt
    assert _state() == before
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        watch(nn.Linear(2, 2), X)
    with pytest.raises(TypeError):
        watch(F.multi_head_attention_forward, X)


def test_what_the_visitor_raises():
    def ours(observed):
        raise ValueError("a bug of ours")

    def theirs(observed):
        raise VisitorError(ValueError("a visitor's"))

    watching = Observer(ours)
    with watching.watching():
        Blocks()(X)
    assert list(watching.missed) == [f"{name}: not shown, ValueError: a bug of ours" for name in NAMES]
    with pytest.raises(VisitorError), Observer(theirs).watching():
        Attend(by_hand=True)(X)
    with pytest.raises(VisitorError), Observer(theirs).watching():
        Attend(by_hand=False)(X)
    with pytest.raises(VisitorError), Observer(theirs).watching():
        nn.MultiheadAttention(8, 2)(X, X, X)


def test_nested_watches_both_see_all_and_nothing_of_each_other():
    model = nn.ModuleList([Blocks(), nn.MultiheadAttention(8, 2)])
    outer, inner = Seen(), Seen()

    def taking(seen):
        def take(observed):
            seen.append(observed)
            observed.call.weights() @ torch.ones(5, 3)  # what a visitor computes is seen by nobody

        return Observer(take)

    with taking(outer).watching(), taking(inner).watching():
        model[0](X)
        model[1](X.transpose(0, 1), X.transpose(0, 1), X.transpose(0, 1))
    assert outer.names == inner.names == [*NAMES, "MultiheadAttention"]


def test_a_watch_that_is_entered_again_sees_each_once():
    seen, model = Seen(), Blocks()
    watching = Observer(lambda observed: seen.append(observed))
    with watching.watching():
        with watching.watching():
            model(X)
        model(X)
    with watching.watching():
        model(X)
    model(X)
    assert seen.names == NAMES * 3


def test_observeres_that_overlap_and_end_in_any_order():
    before = _state()
    first, second = Observer(lambda observed: None), Observer(lambda observed: None)
    one, other = first.watching(), second.watching()
    barrier = threading.Barrier(2)

    def begin():  # in a thread of its own, as modes of one thread end in order
        with one:
            barrier.wait()
            barrier.wait()

    thread = threading.Thread(target=begin)
    thread.start()
    barrier.wait()
    with other:
        barrier.wait()
        thread.join()
        Blocks()(X)
    assert second.operations
    assert _state() == before


@pytest.mark.parametrize("n_workers", [1, 4])
def test_threads(n_workers):
    model = Blocks()

    def program():
        with ThreadPoolExecutor(n_workers) as pool:
            return list(pool.map(model, [X] * 6))

    seen, results = watch(program)
    assert sorted(seen.names) == sorted(NAMES * 6)
    for one, other in zip(results, [model(X)] * 6, strict=True):
        assert torch.equal(one, other)


def test_threads_within_a_module_and_threads_that_live_on():
    class Spreads(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Attend()

        def forward(self, x):
            thread = threading.Thread(target=self.attn, args=(x,))
            thread.start()
            thread.join()
            assert "run" not in vars(thread)
            return x

    assert watch(Spreads(), X)[0].names == ["attn"]
    pool = ThreadPoolExecutor(1)
    model = Blocks()
    seen, _ = watch(lambda: pool.submit(model, X).result())
    pool.submit(model, X).result()
    assert seen.names == NAMES, "a thread that goes on is no longer watched"
    again, _ = watch(lambda: pool.submit(model, X).result())
    assert again.names == [], "nor is one that was there before"
    assert again.missed == ["Blocks: runs in a thread that was started before the recording, and is not seen"]
    relu = nn.ReLU()
    assert watch(lambda: pool.submit(relu, X).result())[0].missed == [], "it is said of what may hold attention"
    named, _ = watch(lambda: pool.submit(relu, X).result(), model=relu)
    assert named.missed == ["ReLU: runs in a thread that was started before the recording, and is not seen"]
    pool.shutdown()


def test_async_functions():
    model = Blocks()

    async def program():
        return await asyncio.gather(*(asyncio.to_thread(model, X) for _ in range(2)))

    assert sorted(watch(lambda: asyncio.run(program()))[0].names) == sorted(NAMES * 2)


def test_data_parallel_copies_are_one_model():
    model = Blocks()

    def program():
        replicas = [copy.copy(model), copy.copy(model)]
        for replica in replicas:
            replica._is_replica = True  # as torch.nn.parallel.replicate says of its own
        threads = [threading.Thread(target=replica, args=(X,)) for replica in replicas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return nn.DataParallel(model)(X)

    assert sorted(set(watch(program)[0].names)) == sorted({*NAMES, *(f"module.{name}" for name in NAMES)})


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_is_not_seen_a_second_time(use_reentrant):
    model = Blocks()

    def program():
        x = X.clone().requires_grad_()
        loss = checkpoint(model, x, use_reentrant=use_reentrant).sum()
        torch.autograd.backward(loss)  # Tensor.backward is a function within which no mode sees anything
        return x.grad

    seen, grad = watch(program)
    assert seen.names == NAMES
    assert torch.equal(grad, program())
    loss = checkpoint(model, X.clone().requires_grad_(), use_reentrant=use_reentrant).sum()
    with ThreadPoolExecutor(1) as older:  # as those of PyTorch's own that compute gradients on a GPU
        older.submit(int).result()
        assert watch(lambda: older.submit(torch.autograd.backward, loss).result())[0].missed == []


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("by_hand", [True, False])
def test_transforms_of_functions_are_said_not_to_be_seen(by_hand):
    model = Attend(by_hand)

    def program():
        batched = torch.vmap(model)(torch.stack([X, X]))
        return batched, torch.func.grad(lambda x: model(x).sum())(X)

    seen, results = watch(program)
    for one, other in zip(results, program(), strict=True):
        assert torch.equal(one, other)
    assert not seen
    assert seen.missed == ["Attend: runs within a transform of torch.func, such as vmap, and is not recorded there"]


def _operations(traced):
    return [node.kind() for node in traced.inlined_graph.nodes()]


@uses_torch_jit
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::UserWarning")
def test_tracing_and_scripting():
    model = nn.Sequential(Attend(False), Attend(True)).eval()

    def trace():
        with torch.no_grad():
            return torch.jit.trace(model, X, check_trace=False)  # the check runs the model as it is

    seen, traced = watch(trace)
    assert not seen
    assert _operations(traced) == _operations(trace()), "nothing of ours is traced"
    seen, out = watch(traced, X)
    assert not seen
    assert torch.equal(out, model(X))
    with torch.no_grad():
        mha = nn.MultiheadAttention(8, 2).eval()
        seen, traced = watch(lambda: torch.jit.trace(mha, (X, X, X), check_trace=False))
        assert _operations(traced) == _operations(torch.jit.trace(mha, (X, X, X), check_trace=False))


def test_models_and_tensors_are_saved_and_copied_as_they_are():
    model = Blocks()

    def program():
        out = model(X)
        files = io.BytesIO(), io.BytesIO()
        torch.save(model, files[0])
        torch.save(out, files[1])
        return copy.deepcopy(model)(X), pickle.loads(pickle.dumps(out.detach())), [f.getvalue() for f in files]

    seen, (out, again, saved) = watch(program)
    assert torch.equal(out, again)
    assert [len(one) for one in saved] == [len(one) for one in program()[2]]
    assert seen.names == [*NAMES, *(f"model 2.{name}" for name in NAMES)]


def test_a_device_that_is_set_within():
    seen, _ = watch(lambda: torch.set_default_device("cpu"))
    assert not seen
    torch.set_default_device(None)


def test_no_memory_is_kept():
    freed = []

    class Keeps(Attend):
        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
            S = q @ k.mT
            A = S.softmax(-1)
            dropped = F.dropout(A, 0.1)
            freed.extend(weakref.ref(one) for one in (S, A, dropped))
            return (dropped @ v).flatten(1)

    model, watching = Keeps(), Observer(lambda observed: None)
    with watching.watching():
        out = model(X)
        del out
        gc.collect()
        assert [one() for one in freed] == [None] * 3
    assert len(watching._by_hand._marks) == 0


@pytest.mark.slow
def test_many_passes_grow_nothing():
    model = Attend(width=4)
    x = torch.randn(1, 3, 4)
    watching = Observer(lambda observed: None)

    def run(n):
        for _ in range(n):
            model(x).sum().backward()
            model.zero_grad()
        gc.collect()
        sizes = [len(one) for one in vars(watching).values() if isinstance(one, dict | list | set)]
        return len(gc.get_objects()), sizes, len(watching._by_hand._marks), len(watching._modules._names)

    with watching.watching():
        run(20)
        before = run(50)
        after = run(150)
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 50


def test_functions_that_are_followed_alike_share_a_handler():
    """Or to begin a recording would take milliseconds."""
    handlers = Observer(lambda observed: None).handlers
    assert len(set(handlers.values())) < len(handlers) / 4


def test_a_write_into_a_cache_costs_what_it_touches(monkeypatch):
    """However many other tensors live, each is asked for its memory once."""
    asked, memory = [], marks._memory
    monkeypatch.setattr(marks, "_memory", lambda x: asked.append(id(x)) or memory(x))
    words, cache, counts = nn.Embedding(9, 8), torch.zeros(1, 40, 8), []
    with torch.no_grad(), Observer(lambda observed: None).watching():
        x = words(torch.arange(40)[None] % 9)
        others = [x + 1 for _ in range(300)]
        for i in range(20):
            cache[:, i] = x[:, i]
            cache.index_copy_(1, torch.tensor([i]), x[:, i : i + 1])
            counts.append(len(asked))
    assert len(others) < counts[0] < 320
    assert counts[-1] - counts[0] < 10 * len(counts)


def test_new_models_all_the_time_grow_nothing(monkeypatch):
    monkeypatch.setattr(modules, "_MOST_NAMES", 50)
    watching = Observer(lambda observed: None)
    with watching.watching():
        for _ in range(100):
            Attend(width=2, n_heads=1)(X[..., :2])
    assert (len(watching._modules._names), len(watching._modules._names_called)) == (0, 50)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_forks():
    seen = Seen()
    watching = Observer(lambda observed: seen.append(observed))

    with watching.watching():
        X.sum()
        process = multiprocessing.get_context("fork").Process(target=lambda: os._exit(int(watching.is_active)))
        process.start()
        process.join(60)
        process.kill()  # what other tests' threads held when it was forked, it might wait for
        assert process.exitcode == 0, "what is forked is not watched"
        assert watching.has_forked
        _by_function(X)
    assert len(seen) == 1


def test_accuracy_is_of_what_was_caught():
    """A test of the tests: weights that are off by a little fail."""
    seen, _ = watch(_by_function, X)
    observed = seen.only()
    assert_explains(observed)
    observed.call.query.mul_(1.01)
    with pytest.raises(AssertionError):
        assert_explains(observed)


_COMPILED = '''
import threading
import torch
from torch import nn
from torch.nn import functional as F
from watched import watch
from test_observer import Blocks, NAMES, X, _state

class Counting:
    """A backend that counts what it compiles, and runs it as it is: there need be no compiler for C++ here."""
    n = 0
    def __call__(self, graph, inputs):
        Counting.n += 1
        return graph.forward

def compiled(model):
    return torch.compile(model, backend=Counting())

# Before anything has asked for the compiler: within, it is told when it is asked for.
before = torch.compile
model = Blocks()
kept = []
def program():
    kept.append(torch.compile)
    return compiled(model)(X)
seen, out = watch(program)
assert sorted(seen.names) == NAMES, (seen.names, seen.missed)
assert torch.equal(out, model(X))
assert Counting.n == 0
assert torch.compile is before
import torch._dynamo.eval_frame as eval_frame
assert eval_frame._stance.stance == "default"

# One that a program has kept from within compiles as PyTorch's own.
kept[0](lambda x: x + 1, backend=Counting())(X)
assert Counting.n == 1 and eval_frame._stance.stance == "default"

# A model that was compiled before, and has run.
fast = compiled(model)
expected = fast(X)
n = Counting.n
assert n > 1
seen, out = watch(fast, X)
assert seen.names == NAMES, (seen.names, seen.missed)
assert torch.equal(out, model(X)) and Counting.n == n
fast(X)
assert Counting.n == n, "it is not compiled again afterwards"

# Module.compile, decorated functions, and an exception.
@torch.compile(backend=Counting())
def decorated(x):
    return F.scaled_dot_product_attention(x, x, x)
decorated(X[None])
state = _state()
def fails():
    decorated(X[None])
    other = Blocks()
    other.compile(backend=Counting())
    other(X)
    raise ValueError
kept = []
from mhaviz.observe.mode import Observer
try:
    with Observer(lambda observed: kept.append(observed.place.name)).watching():
        fails()
except ValueError:
    pass
assert len(kept) == 3 and kept[1:] == NAMES, kept
assert state == _state()
print("done")
'''


@pytest.mark.slow
def test_compiled_programs():
    """In a process of its own, where nothing has asked for the compiler yet."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    roots = [here, os.path.dirname(here), os.path.dirname(os.path.dirname(here))]  # noqa: PTH120
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots)}
    command = [sys.executable, "-c", _COMPILED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "done\n", done.stderr


def test_what_following_a_function_costs():
    """Calls of Python's functions are counted, not seconds."""
    calls, layer = [], nn.Linear(6, 6)

    class Adds(nn.Module):
        def forward(self, x):
            x = layer(x)
            x + 1  # a function that is new to the recorder costs more
            before = sys.getprofile()
            sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)
            try:
                x + 1
            finally:
                sys.setprofile(before)

    watching = Observer(lambda observed: None)
    with watching.watching():
        Adds()(torch.randn(2, 4, 6))
    assert len(calls) <= 58, calls
    handlers = list(watching.handlers.values())  # which each recording makes anew
    assert len(set(map(id, handlers))) < len(handlers) / 5
