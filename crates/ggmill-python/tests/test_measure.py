"""Measurements and importance matrices, whole and in parts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import ggmill
import pytest

STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball. She wanted to play with it, but it was too high. Lily's mom "
    'said, "Lily, let\'s go to the park." Lily was sad and did not know what to do. She wanted to '
    "play with her friends. Tom and Ben were friends. They liked to run in the sun. One day they "
    "found a small dog. The dog was lost and scared."
)


@pytest.fixture(scope="module")
def small(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    ggmill.quantize(llama, path, "Q4_0")
    return path


def test_merged_scores_equal_those_of_the_whole_text(llama: Path, small: Path) -> None:
    def measured(**options: Any) -> ggmill.Scores:
        return ggmill.measure(small, against=llama, text=STORY, context=32, **options)

    seen: list[tuple[int, int]] = []
    whole = measured(progress=lambda done, total, _: seen.append((done, total)))
    chunks = whole.document["chunks"]
    assert chunks >= 4 and seen[-1] == (chunks, chunks)
    assert whole.perplexity is not None and 1 < whole.perplexity < 20
    assert whole.divergence is not None and 0 < whole.divergence < 0.5
    parts = [measured(first_chunk=first, chunks=2, threads=1) for first in range(0, chunks, 2)]
    parts = [pickle.loads(pickle.dumps(part)) for part in reversed(parts)]
    merged = ggmill.Scores.merge(parts)
    assert merged.document == whole.document
    assert ggmill.Scores(merged.json) == merged
    assert repr(merged).endswith(f"small.gguf on {chunks} chunks>")
    with pytest.raises(ggmill.FormatError, match="is in two parts"):
        ggmill.Scores.merge([parts[0], *parts])
    # Several models in one pass, and without a base.
    both = ggmill.measure([small, llama], text=STORY, context=32)
    assert [model["file"] for model in both.document["models"]] == [str(small), str(llama)]
    assert both.perplexity == whole.perplexity and both.divergence is None


def test_merged_matrices_equal_that_of_the_whole_text(llama: Path, small: Path, tmp_path: Path) -> None:
    def measured(**options: Any) -> ggmill.Imatrix:
        return ggmill.imatrix(
            llama, text=STORY, context=32, matrices="all", dataset="story", **options
        )

    whole = measured()
    merged = ggmill.Imatrix.merge(
        pickle.loads(pickle.dumps(measured(**part)))
        for part in ({"chunks": 2}, {"first_chunk": 2})
    )
    whole.save(tmp_path / "whole.gguf")
    merged.save(tmp_path / "merged.gguf")
    merged.save(tmp_path / "merged.dat")
    assert ggmill.Imatrix.open(tmp_path / "merged.gguf") == merged
    with pytest.raises(ggmill.OutputExistsError):
        merged.save(tmp_path / "merged.gguf")
    merged.save(tmp_path / "merged.gguf", overwrite=True)
    with ggmill.open(tmp_path / "whole.gguf") as one, ggmill.open(tmp_path / "merged.gguf") as two:
        assert list(one.tensors) == list(two.tensors)
        assert "output.weight.in_sum2" in one.tensors or "token_embd.weight.in_sum2" in one.tensors
        for name in one.tensors:
            found, expected = two.tensors[name].dequantize(), one.tensors[name].dequantize()
            assert found == pytest.approx(expected, rel=1e-6), name
    for name in ("merged.gguf", "merged.dat"):
        out = tmp_path / f"{name}-IQ2.gguf"
        ggmill.quantize(llama, out, "Q4_0", imatrix=tmp_path / name)


def test_measurement_errors(llama: Path, vocabulary: Path, tmp_path: Path) -> None:
    with pytest.raises(ggmill.ArgumentError, match="expected either text or tokens"):
        ggmill.measure(llama)
    with pytest.raises(ggmill.ArgumentError, match="two chunks of 512"):
        ggmill.measure(llama, text="Once")
    with pytest.raises(ggmill.ArgumentError, match="there is no chunk 99"):
        ggmill.imatrix(llama, text=STORY, context=32, first_chunk=99)
    with pytest.raises(ggmill.ArgumentError, match='expected "blocks", "output" or "all"'):
        ggmill.imatrix(llama, text=STORY, context=32, matrices="some")  # type: ignore[arg-type]
    with pytest.raises(ggmill.FormatError, match="not a document of scores"):
        ggmill.Scores("{}").document
    with pytest.raises(ggmill.Error):
        ggmill.measure(vocabulary, tokens=list(range(64)), context=32)
    with pytest.raises(ggmill.NoSuchFileError):
        ggmill.measure(tmp_path / "none.gguf", tokens=list(range(64)), context=32)
    with pytest.raises(ggmill.StoppedError):
        ggmill.measure(llama, text=STORY, context=32, progress=lambda *_: False)
    with pytest.raises(ggmill.ArgumentError, match="needs [0-9.]+ [KMG]iB of memory, but 1 B are allowed"):
        ggmill.measure(llama, text=STORY, context=32, memory=1)


def test_token_ids_are_not_changed(llama: Path) -> None:
    with ggmill.open(llama) as model:
        ids = model.tokenizer().encode(STORY, add_special=False)
    found = ggmill.measure(llama, tokens=ids, context=32)
    assert json.loads(found.json)["context"] == 32
    assert found.document["chunks"] == len(ids) // 32
