"""Pangu Embedded: Qwen 2."""

from qwen2 import model
