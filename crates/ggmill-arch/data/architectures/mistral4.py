"""Mistral 4: DeepSeek V3."""

from deepseek2 import model
