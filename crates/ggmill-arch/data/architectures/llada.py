"""LLaDA: a Llama, for diffusion."""

from ernie4_5 import model
