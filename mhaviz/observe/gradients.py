"""Find the gradient of a scalar at the output of each attention that has been observed, in the program's own graph.

What is needed of an attention is held by the node of the graph that has made its output, so that it lives as long as
the graph, and no longer. From a scalar y, the graph leads to all attentions on which y depends. A node stays what it
is if the program changes the output in place afterwards, as the tensor's gradient would not.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.zeroing import Arrange

_KEY = "mhaviz attention"
"""Key in the metadata of a node, under which it holds the attentions whose output it has made."""


@dataclass(frozen=True)
class HeldCall:
    """What is held of an attention until the graph is gone. Tensors have no gradients.

    Attributes:
        owner: who has let the graph hold it, as more than one recording may see a graph.
        tag: what the owner knows it by.
        call: its inputs, or its weights, for all examples.
        value: (batch_size, n_heads or n_kv_heads, k_length, d_value).
        output: (batch_size, n_heads, q_length, d_value).
        arrange: puts the axes of a gradient of the program's own output in this order.
        place: which output of the node it is.
        shape: shape of the program's own output.
        versions: how often its tensors and its output had been changed in place.
    """

    owner: object
    tag: Any
    call: AttentionCall | AttentionWeights
    value: Tensor
    output: Tensor
    arrange: Arrange
    place: int
    shape: torch.Size
    versions: tuple[int, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether the program has not changed its queries, keys, values or weights in place since."""
        return self.versions[1:] == _versions(self.call, self.value, self.output)[1:]

    @property
    def is_output_kept(self) -> bool:
        """Whether the program has not changed its output in place since."""
        return self.versions[0] == _version(self.output)


class Differentiated(NamedTuple):
    """An attention, and the gradient of a scalar at its output, (batch_size, n_heads, q_length, d_value)."""

    held: HeldCall
    gradient: Tensor


def hold(observed: ObservedCall, owner: object, tag: Any) -> str:
    """Let the graph hold an attention that has just run. Return why no gradient can be found there; "" if it can.

    Args:
        observed: the attention.
        owner: any object, which ``differentiate`` is told again.
        tag: what the owner knows the attention by. The graph keeps both alive, so that they must not hold the graph.
    """
    if observed.is_before_dropout:
        return "dropout has changed its weights; call eval()"
    if observed.is_random:
        return "random numbers have changed its weights"
    if observed.weighted is None or (product := observed.weighted()) is None:
        return "its output is projected within one function, or its values are not known"
    made, call = product.made, observed.call
    if not made.requires_grad or made.grad_fn is None:
        return "its output has no gradient: it runs under no_grad, or returns its weights, as torch.nn layers may"
    call = _detached(call)
    value = call.value if isinstance(call, AttentionCall) else product.value.detach()
    output = product.arrange(made.detach())
    held = HeldCall(
        owner, tag, call, value, output, product.arrange, made.output_nr, made.shape, _versions(call, value, output)
    )
    _metadata(made.grad_fn).setdefault(_KEY, []).append(held)
    return ""


def differentiate(
    y: Tensor, owner: object, retain_graph: bool = True, through_attention: bool = True
) -> list[Differentiated]:
    """Return the attentions on which a scalar depends, with its gradients at their outputs, in no order.

    Gradients of parameters are not computed.

    Args:
        y: scalar, whose graph is alive.
        owner: who has let the graph hold the attentions; those of others are left out.
        retain_graph: whether the graph is kept.
        through_attention: whether gradients pass through attention; if not, they are those of what y depends on beside
            it, as by residual connections.

    Raises:
        MhavizError: y is no scalar, or has no gradient; tensors were changed in place, or the graph was freed.
    """
    if not isinstance(y, Tensor) or y.numel() != 1:
        got = f"a tensor of {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise MhavizError(f"expected a scalar, such as one logit, got {got}; choose an element, or sum them")
    if y.grad_fn is None:
        raise MhavizError(
            "expected a scalar with a gradient, got none: it was computed under no_grad or inference_mode, by a "
            "quantised layer, or from constants"
        )
    found = _held(y, owner)
    edges = [GradientEdge(node, held.place) for node, held in found]
    gradients = _gradients(y.reshape(()), edges, retain_graph, through_attention) if found else ()
    return [
        Differentiated(held, held.arrange(gradient))
        for (_, held), gradient in zip(found, gradients, strict=True)
        if gradient is not None
    ]


def depends_beside_attention(y: Tensor, owner: object, later: HeldCall, earlier: HeldCall) -> bool:
    """Return whether the keys or values of an attention, or its queries, are made of the output of an earlier one
    without passing through any attention between them."""
    nodes = {id(held): node for node, held in _held(y, owner)}
    made, seen = nodes[id(later)], nodes[id(earlier)]
    ends = [GradientEdge(made, later.place)], [GradientEdge(seen, earlier.place)]
    with _stopped(set(nodes.values()) - {made}):
        (found,) = torch.autograd.grad(
            *ends, [later.output.new_ones(later.shape)], retain_graph=True, allow_unused=True
        )
    return found is not None and bool((found != 0).any())


def _held(y: Tensor, owner: object) -> list[tuple[Node, HeldCall]]:
    """Return what the graph of y holds of an owner. Raises MhavizError if it has attentions of others alone."""
    assert y.grad_fn is not None
    found = list[tuple[Node, HeldCall]]()
    for node in _nodes(y.grad_fn):
        calls = _metadata(node).get(_KEY, ())
        own = [(node, held) for held in calls if held.owner is owner]
        if calls and not own:
            raise MhavizError("y depends on attention that was not recorded here, but in another recording")
        found += own
    return found


def _gradients(
    y: Tensor, edges: Sequence[GradientEdge], retain_graph: bool, through_attention: bool
) -> Sequence[Tensor | None]:
    assert y.grad_fn is not None
    stopped = [] if through_attention else [node for node in _nodes(y.grad_fn) if _KEY in _metadata(node)]
    with _stopped(stopped):
        try:
            return torch.autograd.grad(y, edges, retain_graph=retain_graph, allow_unused=True)
        except RuntimeError as error:
            raise MhavizError(f"the graph of y cannot be differentiated: {str(error).splitlines()[0]}") from None


@contextmanager
def _stopped(nodes: Iterable[Node]) -> Iterator[None]:
    """Let no gradient pass through these nodes in the block."""
    stops = [node.register_prehook(_zeros) for node in nodes]
    try:
        yield
    finally:
        for stop in stops:
            stop.remove()


def _zeros(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    return tuple(None if x is None else torch.zeros_like(x) for x in gradients)


def gradients_beside_attention(y: Tensor, name: str) -> list[Tensor]:
    """Return the gradients of a scalar at what nodes of a name have made, if none passes through attention.

    The graph is kept, and lets gradients pass afterwards.
    """
    assert y.grad_fn is not None
    edges = [GradientEdge(node, 0) for node in _nodes(y.grad_fn) if node.name() == name]
    return [x for x in _gradients(y, edges, True, False) if x is not None]


def require_attention_alone(y: Tensor) -> None:
    """Raise MhavizError if y depends on attention through a convolution, which mixes tokens too.

    What stands before all attention, such as the convolution that makes patches, makes the tokens.
    """
    nodes = list(_nodes(y.grad_fn)) if y.grad_fn is not None else []
    after = set[Node]()  # of the nodes, those that are computed from an attention
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for before, _ in node.next_functions:
            if before is not None:
                users.setdefault(before, []).append(node)
    left = [node for node in nodes if _KEY in _metadata(node)]
    while left:
        new = [user for user in users.get(left.pop(), ()) if user not in after]
        after.update(new)
        left += new
    for node in after:
        if _is_convolution(node):
            raise MhavizError(
                "y depends on attention through a convolution, which mixes tokens too, and relevance goes through "
                "weights of attention alone"
            )


def _is_convolution(node: Node) -> bool:
    """Return whether a node is of a convolution of more than single places."""
    if "Convolution" not in node.name():
        return False
    weight: Any = getattr(node, "_saved_weight", None)
    return weight is None or any(size > 1 for size in weight.shape[2:])


def _nodes(first: Node) -> Iterator[Node]:
    """Yield the nodes from which one is computed, each once."""
    seen, left = {first}, [first]
    while left:
        node = left.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                left.append(before)


def _metadata(node: Node) -> dict[Any, Any]:
    found: Any = node.metadata  # PyTorch's stub makes a method of it
    return found  # type: ignore[no-any-return]


def _detached(call: AttentionCall | AttentionWeights) -> AttentionCall | AttentionWeights:
    if isinstance(call, AttentionWeights):
        return replace(call, given=call.given.detach())
    query, key, value = call.query.detach(), call.key.detach(), call.value.detach()
    mask, sinks = (None if x is None else x.detach() for x in (call.mask, call.sinks))
    return replace(call, query=query, key=key, value=value, mask=mask, sinks=sinks)


def _versions(call: AttentionCall | AttentionWeights, value: Tensor, output: Tensor) -> tuple[int, ...]:
    if isinstance(call, AttentionWeights):
        of_call: tuple[Tensor | None, ...] = (call.given,)
    else:
        of_call = call.query, call.key, call.mask, call.sinks
    return tuple(_version(x) for x in (output, *of_call, value) if x is not None)


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version
