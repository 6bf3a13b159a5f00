"""Mapping of tensor names in checkpoints to tensor names in GGUF files."""

from __future__ import annotations

from collections.abc import Sequence

from ._checkpoint_names import BLOCK, BLOCK_OF, MODEL
from .constants import MODEL_ARCH, MODEL_TENSOR, MODEL_TENSORS, TENSOR_NAMES


class TensorNameMap:
    """The GGUF names of the tensors of an architecture with `n_blocks` blocks.

    `mapping` maps a name in a checkpoint or GGUF file to the role and the GGUF name, all without
    .weight and .bias.
    """

    mappings_cfg: dict[MODEL_TENSOR, tuple[str, ...]] = MODEL
    block_mappings_cfg: dict[MODEL_TENSOR, tuple[str, ...]] = BLOCK
    arch_block_mappings_cfg: dict[MODEL_ARCH, dict[MODEL_TENSOR, tuple[str, ...]]] = BLOCK_OF

    mapping: dict[str, tuple[MODEL_TENSOR, str]]

    def __init__(self, arch: MODEL_ARCH, n_blocks: int):
        self.mapping = {}
        known = set(MODEL_TENSORS[arch])
        for tensor, names in self.mappings_cfg.items():
            if tensor in known:
                self._add(tensor, TENSOR_NAMES[tensor], names)
        blocks = {**self.block_mappings_cfg, **self.arch_block_mappings_cfg.get(arch, {})}
        used = [(t, TENSOR_NAMES[t], names) for t, names in blocks.items() if t in known]
        for block in range(n_blocks):
            for tensor, name, names in used:
                self._add(tensor, name.format(bid=block), [one.format(bid=block) for one in names])

    def _add(self, tensor: MODEL_TENSOR, name: str, others: Sequence[str]) -> None:
        found = (tensor, name)
        self.mapping[name] = found
        for other in others:
            self.mapping[other] = found

    def get_type_and_name(
        self, key: str, try_suffixes: Sequence[str] = ()
    ) -> tuple[MODEL_TENSOR, str] | None:
        """Return the role and the GGUF name of a tensor, or None.

        If `key` ends in one of `try_suffixes`, the GGUF name gets the same suffix.
        """
        found = self.mapping.get(key)
        if found is not None:
            return found
        for suffix in try_suffixes:
            if key.endswith(suffix):
                found = self.mapping.get(key[: -len(suffix)])
                if found is not None:
                    return found[0], found[1] + suffix
        return None

    def get_name(self, key: str, try_suffixes: Sequence[str] = ()) -> str | None:
        """Return the GGUF name of a tensor, or None."""
        found = self.get_type_and_name(key, try_suffixes=try_suffixes)
        return None if found is None else found[1]

    def get_type(self, key: str, try_suffixes: Sequence[str] = ()) -> MODEL_TENSOR | None:
        """Return the role of a tensor, or None."""
        found = self.get_type_and_name(key, try_suffixes=try_suffixes)
        return None if found is None else found[0]

    def __getitem__(self, key: str) -> str:
        return self.mapping[key][1]

    def __contains__(self, key: str) -> bool:
        return key in self.mapping

    def __repr__(self) -> str:
        return repr(self.mapping)


def get_tensor_name_map(arch: MODEL_ARCH, n_blocks: int) -> TensorNameMap:
    """Return the tensor names of an architecture with this number of blocks."""
    return TensorNameMap(arch, n_blocks)
