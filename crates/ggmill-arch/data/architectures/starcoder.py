"""StarCoder: GPT-2."""

from gpt2 import model
