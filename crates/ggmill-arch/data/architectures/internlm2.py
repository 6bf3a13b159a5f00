"""InternLM 2: a Llama."""

from ernie4_5 import model
