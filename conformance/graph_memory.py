"""Shows what is in the compute buffers that libllama accounts for: the graph of a model, in order, and where ggml's allocator places each result.

    LD_PRELOAD=./graph_memory.so python graph_memory.py MODELS NAME OPTIONS [BUFFER]

MODELS, NAME and OPTIONS are those of `estimate.py reference`; where OPTIONS is a placement of `estimate.py devices` or `overrides`, RPC names ggml's backend of that
name. Of each result: its number, offset and size, `=` where it takes the place of one of its sources, the operation, its name and dimensions, and the numbers of its
sources. At the end what is there when the buffer (0, or BUFFER) is the fullest: what the steps of `[[memory.compute]]` are to have at that point.

The library that is loaded first is made with ggml's headers, in vendor/llama.cpp of the wheel's source archive:

    cc -O1 -shared -fPIC -Iggml/include -Iggml/src graph_memory.c -o graph_memory.so -ldl
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import estimate

INPUT, OUTPUT = 1, 2
ALIGNMENT = 32


class Tensor(NamedTuple):
    """A line of graph_memory.c."""
    kind: str
    address: str
    buffer: int
    operation: str
    name: str
    type: str
    shape: str
    size: int
    flags: int
    external: bool
    view_of: str | None
    offset: int
    sources: list
    in_place: bool
    strides: tuple

    @property
    def layout(self):
        return self.type, self.shape, self.strides


def graphs(path):
    """The graphs that were given to the allocator, each with the length of its first buffer."""
    found = []
    for line in Path(path).read_text(errors="replace").splitlines():
        words = line.split("\t")
        if words[0] == "graph":
            found.append((int(words[1]), []))
            continue
        kind, address, buffer, operation, name, of_type, shape, size, flags, external, view_of, offset, sources, in_place, *strides = words
        found[-1][1].append(Tensor(kind, address, int(buffer), operation, name, of_type, shape, int(size), int(flags), external == "1",
                                   None if view_of == "(nil)" else view_of, int(offset), sources.split(), in_place == "1", tuple(strides)))
    return found


class Buffer:
    """Free ranges, as ggml_dyn_tallocr has them."""

    def __init__(self):
        self.free, self.length = [[0, 1 << 62]], 0

    def allocate(self, size):
        fitting = [block for block in self.free[:-1] if block[1] >= size]
        block = min(reversed(fitting), key=lambda block: block[1]) if fitting else self.free[-1]
        offset = block[0]
        block[0] += size
        block[1] -= size
        if not block[1]:
            self.free.remove(block)
        self.length = max(self.length, offset + size)
        return offset

    def release(self, offset, size):
        """Joins what is beside the first free range that it is beside, in order. What has no bytes can be within what is in use, and then keeps others apart."""
        for place, block in enumerate(self.free):
            end = block[0] + block[1]
            if end != offset and offset + size != block[0]:
                continue
            first, second = place, place + 1
            if end == offset:
                block[1] += size
            else:
                block[0], block[1] = offset, block[1] + size
                first, second = place - 1, place
            if first >= 0 and second < len(self.free) and sum(self.free[first]) == self.free[second][0]:
                self.free[first][1] += self.free[second][1]
                del self.free[second]
            return
        behind = (place for place, block in enumerate(self.free) if block[0] >= offset)
        self.free.insert(next(behind, len(self.free)), [offset, size])


class Places:
    """What ggml_gallocr_alloc_graph_impl does with one graph."""

    def __init__(self, tensors):
        self.tensors = {}
        for tensor in tensors:
            if tensor.address not in self.tensors or tensor.kind != "source":
                self.tensors[tensor.address] = tensor
        self.nodes = [tensor for tensor in tensors if tensor.kind == "node"]
        self.leafs = [tensor for tensor in tensors if tensor.kind == "leaf"]
        self.buffers, self.placed, self.owner, self.at, self.uses, self.views = {}, {}, {}, {}, {}, {}
        self.reused, self.fullest = {}, {}

    def size(self, tensor):
        return -(-tensor.size // ALIGNMENT) * ALIGNMENT

    def place(self, tensor, buffer):
        if tensor.external or tensor.address in self.owner or tensor.view_of:
            return
        self.owner[tensor.address] = True
        for source in map(self.tensors.get, tensor.sources if tensor.in_place else []):
            if not self.owner.get(source.address) or source.flags & OUTPUT or source.layout != tensor.layout:
                continue
            if self.uses[source.address] == 1 and not self.views.get(source.address):
                self.at[tensor.address], self.owner[source.address] = self.at[source.address], False
                self.reused[tensor.address] = source.address
                return
        memory = self.buffers.setdefault(buffer, Buffer())
        before = memory.length
        self.at[tensor.address] = buffer, memory.allocate(self.size(tensor))
        if memory.length > before:
            self.fullest[buffer] = tensor.address, [address for address, owned in self.owner.items() if owned and self.at[address][0] == buffer]

    def release(self, tensor):
        if tensor.flags & OUTPUT or not self.owner.get(tensor.address):
            return
        buffer, offset = self.at[tensor.address]
        self.buffers[buffer].release(offset, self.size(tensor))
        self.owner[tensor.address] = False

    def run(self):
        for leaf in self.leafs:
            self.place(leaf, leaf.buffer)
        for node in self.nodes:
            if node.view_of and node.operation != "NONE":
                self.views[node.view_of] = self.views.get(node.view_of, 0) + 1
            if node.flags & INPUT:
                self.place(node, node.buffer)
            for address in node.sources:
                self.uses[address] = self.uses.get(address, 0) + 1
                if self.tensors[address].flags & INPUT:
                    self.place(self.tensors[address], node.buffer)
        for node in self.nodes:
            for address in node.sources:
                self.place(self.tensors[address], node.buffer)
            self.place(node, node.buffer)
            for address in node.sources:
                self.uses[address] -= 1
                if self.uses[address] or self.views.get(address):
                    continue
                source = self.tensors[address]
                if not source.view_of:
                    self.release(source)
                    continue
                self.views[source.view_of] -= 1
                if not self.views[source.view_of] and not self.uses.get(source.view_of):
                    self.release(self.tensors[source.view_of])


def show(tensors, buffer):
    places = Places(tensors)
    places.run()
    numbers = {node.address: number for number, node in enumerate(places.nodes)}
    line = {address: str(number) for address, number in numbers.items()}
    for node in places.nodes:
        where = places.at.get(node.address)
        text = "view" if node.view_of else "-" if not where else f"{where[0]}:{where[1]}+{node.size}" + "=" * (node.address in places.reused)
        sources = " ".join(line.get(address, places.tensors[address].name) for address in node.sources)
        print(f"{numbers[node.address]}\t{text}\t{node.operation}\t{node.name}\t{node.type} {node.shape}\t{sources}" + "\toutput" * bool(node.flags & OUTPUT))
    for number, memory in sorted(places.buffers.items()):
        print(f"buffer {number}: {memory.length}")
    last, there = places.fullest[buffer]
    print(f"fullest at {line.get(last)} {places.tensors[last].name}:")
    for address in sorted(there, key=lambda address: places.at[address][1]):
        tensor = places.tensors[address]
        print(f"  {places.at[address][1]}+{places.size(tensor)}\t{line.get(address, '')}\t{tensor.operation} {tensor.name} {tensor.type} {tensor.shape}")


def main(models, wanted, option, buffer="0"):
    keys, tensors = next((keys, tensors) for name, keys, tensors in estimate.models(models) if name == wanted)
    with tempfile.TemporaryDirectory() as directory:
        model, out = Path(directory) / "model.gguf", Path(directory) / "graphs"
        os.environ["GRAPH_MEMORY"] = str(out)
        estimate.write(model, keys, tensors)
        estimate.library("libggml-base.so.0")
        if option in estimate.OPTIONS:
            print(option, estimate.accounted(model, [option]))
        else:
            placements = estimate.PLACEMENTS | estimate.OVERRIDES
            with estimate.served(os.environ["RPC"]):
                print(option, estimate.accounted_devices(model, os.environ["RPC"], {option: placements[option]}))
        # Smaller graphs find out what devices support, or are of one token for each sequence.
        largest = max(graphs(out), key=lambda graph: graph[0])
        show(largest[1], int(buffer))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
