"""Layers whose weight and bias are computed from other parameters, and may be written to as if they were stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from neuronal.nn.standard import StandIn, order_of, put
from neuronal.ops import dispatch

# Note [Writes to what is computed]
# ``layer.weight`` is made when it is read, so what torch writes to it in place (``nn.init``, ``.data``, ``copy_``, an
# assignment to a part, ``out=``) would be lost. It is therefore a ``Computed``: every function of torch that meets it runs
# as on a plain tensor, and if the version counter says that the memory was written to, the layer takes the new values.
# Views and ``.detach()`` share the memory and are ``Computed`` too; everything else that comes out is a plain tensor. A
# tensor read before the layer changed is brought up to date before it is written to. torch's compiler takes no subclass of
# a tensor as an argument: what is compiled reads ``layer.weight`` itself, or is given ``layer.weight.clone()``.

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
_WRITE_IN_PLACE = frozenset(("__setitem__", *(f"__i{name}__" for name in _OPERATORS)))
_AS_PLAIN = frozenset(("__reduce_ex__", "__deepcopy__", "__repr__"))


class _Source:
    """The layer a tensor was computed by, and what of it the tensor is: ``"weight"`` or ``"bias"``."""

    def __init__(self, layer: ComputedMap, name: str, values: Tensor) -> None:
        self.layer, self.name, self.values = layer, name, values
        self.state = self._state_of_layer()

    def _state_of_layer(self) -> list[tuple[int, int]]:
        every = [*self.layer.parameters(), *self.layer.buffers()]
        return [(id(one), 0 if one.is_inference() else one._version) for one in every]

    def holds(self, other: Tensor) -> bool:
        """Whether ``other`` lies in the same memory."""
        if other.layout is not torch.strided:
            return False
        return bool(other.untyped_storage()._cdata == self.values.untyped_storage()._cdata)

    def refresh(self) -> None:
        """Puts into the tensor what the layer computes now, if that has changed."""
        if self.state != self._state_of_layer():
            self._read()

    @torch.no_grad()
    def _read(self) -> None:
        self.values.detach().copy_(cast(Tensor, self.layer._computed(self.name)))
        self.state = self._state_of_layer()

    @torch.no_grad()
    def write(self) -> None:
        """Has the layer take the tensor's values; the tensor then holds what became of them."""
        try:
            self.layer._write(self.name, self.values.detach())
        finally:
            self._read()


class _StandsForParameters(type(Tensor)):  # type: ignore[misc]
    def __instancecheck__(cls, other: object) -> bool:
        """A parameter counts as one of the class: ``torch.testing`` compares tensors of related classes only."""
        return type(other) in (cls, nn.Parameter)


class Computed(Tensor, metaclass=_StandsForParameters):
    """Weight or bias of a layer that computes it; see Note [Writes to what is computed]."""

    _source: _Source
    _is_whole: bool

    @classmethod
    def _of(cls, values: Tensor, source: _Source, *, is_whole: bool = False) -> Computed:
        new = values.as_subclass(cls)
        new._source, new._is_whole = source, is_whole
        return new

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if torch.compiler.is_compiling():
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__iter__":
            return iter(args[0].unbind(0))
        if func == Tensor.data.__set__:  # type: ignore[attr-defined]
            return _put(args[0], args[1])
        with torch._C.DisableTorchFunctionSubclass():
            if name in _AS_PLAIN:
                return func(args[0].as_subclass(Tensor), *args[1:], **kwargs)
            given = [one for one in tree_leaves((args, kwargs)) if type(one) is Computed]
            if name == "requires_grad_" or func == Tensor.requires_grad.__set__:  # type: ignore[attr-defined]
                _check_flag(args[0], *args[1:], **kwargs)
            if _looks_in_place(name, kwargs):
                for one in given:
                    one._source.refresh()
            before = [one._version for one in given]
            result = func(*args, **kwargs)
            written = [one for one, version in zip(given, before, strict=True) if one._version != version]
            for source in {one._source for one in written}:
                if any(one.requires_grad for one in written) and torch.is_grad_enabled() and not _is_init(func):
                    source._read()
                    raise RuntimeError(
                        f"{source.name} of {type(source.layer).__name__} requires grad and was to be changed in place by "
                        f"{name}. Write to it under torch.no_grad(), as to any parameter."
                    )
                source.write()
            if hasattr(result, "setflags"):
                # An array of numpy's, whose writes nobody sees.
                result.setflags(write=False)
            return _guarded(result, given)


def _put(tensor: Tensor, values: Tensor) -> None:
    """What ``tensor.data = values`` does to a plain tensor, but for other shapes."""
    if values.shape != tensor.shape:
        raise RuntimeError(f"data of a computed tensor needs shape {tuple(tensor.shape)}, got {tuple(values.shape)}.")
    with torch.no_grad():
        tensor.detach().copy_(values)


def _check_flag(tensor: Computed, requires_grad: bool = True) -> None:
    layer = tensor._source.layer
    if tensor._is_whole and requires_grad != any(p.requires_grad for p in layer.parameters()):
        raise RuntimeError(
            f"{tensor._source.name} of {type(layer).__name__} is computed from its parameters. "
            f"Use layer.requires_grad_({requires_grad})."
        )


def _looks_in_place(name: str, kwargs: Any) -> bool:
    by_name = name in _WRITE_IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return by_name or kwargs.get("out") is not None


def _is_init(func: Any) -> bool:
    """Whether it is one of ``torch.nn.init``, which switch gradients off inside."""
    return getattr(func, "__module__", None) == "torch.nn.init"


def _guarded(result: Any, given: list[Computed]) -> Any:
    """The result of a function; tensors in the memory of what was given go on writing to its layer."""
    if type(result) in (tuple, list):
        return type(result)(_guarded(one, given) for one in result)
    if isinstance(result, Tensor) and type(result) is not Computed:
        for one in given:
            if one._source.holds(result):
                return Computed._of(result, one._source)
    return result


class ComputedMap(StandIn):
    """A stand-in whose parameters are not a weight and a bias, but determine them.

    A neuron adds ``_weight`` and ``_bias``, which compute them, and ``_parameters_of``, their inverse. What is read as
    ``weight`` and ``bias`` may be written to: in place, by assignment, or by loading the state of a plain layer.
    """

    _channels_last = False
    """The order of memory of the weight of a plain layer in this place: ``model.to(memory_format=...)`` sets it."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        dims = len(self._weight_shape)
        if dims > 3:
            # What ``fn`` does to a weight of so many dimensions, of which no parameter need have as many.
            one = next(self.parameters())
            weight = self._ordered(torch.empty((2,) * dims, dtype=one.dtype, device=one.device))
            self._channels_last = order_of(fn(weight)) != torch.contiguous_format
        return super()._apply(fn, recurse)

    def _ordered(self, weight: Tensor) -> Tensor:
        """The weight in the order of memory the layer was given."""
        if not self._channels_last or dispatch.is_vmapped(weight):
            return weight
        return weight.contiguous(memory_format=torch.channels_last if weight.dim() == 4 else torch.channels_last_3d)

    def _weight(self) -> Tensor:
        raise NotImplementedError

    def _bias(self) -> Tensor | None:
        raise NotImplementedError

    def _parameters_of(self, weight: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """Own parameters, by name, of the plain layer with that weight and bias; those only one of them determines."""
        raise NotImplementedError

    def _computed(self, name: str) -> Tensor | None:
        return self._weight() if name == "weight" else self._bias()

    def _read(self, name: str) -> Tensor | None:
        values = self._computed(name)
        # Compilers, tracers and transforms see the computation and no writes; DTensor keeps its own kind.
        if type(values) is not Tensor or not dispatch.is_plain_eager():
            return values
        if values.is_inference():
            with torch.inference_mode(False):
                # It has a version counter then.
                values = values.clone()
        return Computed._of(values, _Source(self, name, values), is_whole=True)

    def _write(self, name: str, values: Tensor) -> None:
        """Changes own parameters so that weight or bias have these values."""
        self._put(self._parameters_of(*((values, None) if name == "weight" else (None, values))))

    def _put(self, values: Mapping[str, Tensor]) -> None:
        own = self._stored()
        for name, value in values.items():
            if name not in own:
                raise RuntimeError(
                    f"{name} of {type(self).__name__} is parametrised or pruned, so nothing can be written to what is "
                    "computed from it. Remove that first."
                )
            put(own[name], value)

    def _stored(self) -> dict[str, Tensor]:
        return dict([*self.named_parameters(), *self.named_buffers()])

    def _assign(self, name: str, values: object) -> None:
        """What ``layer.weight = values`` does."""
        now = self._computed(name)
        if values is None and now is None:
            return
        owner = type(self).__name__
        if now is None:
            raise TypeError(f"{owner} was made with bias=False and takes no bias. Make it with bias=True.")
        if not isinstance(values, Tensor):
            needed = f"{name} of {owner} needs a tensor, got {'None' if values is None else type(values).__name__}."
            raise TypeError(
                f"{needed} Make the layer with bias=False." if values is None and name == "bias" else needed
            )
        if values.shape != now.shape:
            raise ValueError(f"{name} of {owner} needs shape {tuple(now.shape)}, got {tuple(values.shape)}.")
        if values.requires_grad:
            raise self._cannot_share(name)
        with torch.no_grad():
            self._write(name, values.as_subclass(Tensor))

    @property
    def weight(self) -> Tensor:
        """Weight of the plain layer with the same map; what is written to it, in place or as a whole, the layer takes."""
        return cast(Tensor, self._read("weight"))

    @weight.setter
    def weight(self, values: Tensor) -> None:
        self._assign("weight", values)

    @property
    def bias(self) -> Tensor | None:
        """Bias of the plain layer with the same map, or None; what is written to it the layer takes."""
        return self._read("bias")

    @bias.setter
    def bias(self, values: Tensor | None) -> None:
        self._assign("bias", values)

    def _cannot_share(self, name: str) -> TypeError:
        return TypeError(
            f"{name} of {type(self).__name__} is computed and cannot be a parameter or share one. layer.{name} = "
            "tensor.detach() takes the values; tie plain layers before convert, which keeps them tied."
        )

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        if name in ("weight", "bias") and param is not None:
            raise self._cannot_share(name)
        # What torch's pruning calls the parameter it masks.
        if name in ("weight_orig", "bias_orig"):
            raise TypeError(
                f"{name.removesuffix('_orig')} of {type(self).__name__} is computed and cannot be pruned. Prune the plain "
                "layer that to_standard() gives."
            )
        super().register_parameter(name, param)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """A checkpoint of the plain layer loads: its weight and bias become the parameters of this one."""
        own = self._stored()
        if prefix + "weight" in state_dict and not any(prefix + name in state_dict for name in own):
            shapes = {"weight": self._weight_shape}
            if self._computed("bias") is not None:
                shapes["bias"] = self._weight_shape[:1]
            given = {name: state_dict.pop(prefix + name, None) for name in shapes}
            found: dict[str, Tensor] = {}
            wrong = [name for name in shapes if given[name] is not None and given[name].shape != shapes[name]]
            error_msgs += [
                f"size mismatch for {prefix}{name}: copying a param with shape {given[name].shape} from checkpoint, "
                f"the shape in current model is {torch.Size(shapes[name])}."
                for name in wrong
            ]
            missing_keys += [prefix + name for name in shapes if given[name] is None]
            if not wrong:
                try:
                    with torch.no_grad():
                        found = self._parameters_of(given["weight"], given.get("bias"))
                except ValueError as refused:
                    error_msgs.append(f"{prefix.removesuffix('.')}: {refused}" if prefix else str(refused))
            # The others keep their values.
            state_dict.update({prefix + name: found.get(name, values.detach()) for name, values in own.items()})
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
