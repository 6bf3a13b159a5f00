"""Dream: Qwen 2, for diffusion."""

from qwen2 import model
