"""PaddleOCR, for text: Qwen 2 VL."""

from qwen2vl import model
