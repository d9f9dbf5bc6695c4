"""A model of the kind that people write around transformers: BERT and a head that scores."""

from __future__ import annotations

from typing import Any

import torch

from tests.models.zoo import ZOO


class Ranker(torch.nn.Module):
    """Scores from 0 to 1, one for each text of the batch."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = torch.nn.Linear(32, 1)
        self.limit = 4.0

    def forward(self, **inputs: Any) -> torch.Tensor:
        hidden = self.encoder(**inputs).last_hidden_state
        scores = self.head(hidden[:, 0])
        scores = scores.clamp(max=self.limit)
        return torch.sigmoid(scores)


def build() -> tuple[Ranker, dict[str, torch.Tensor]]:
    """A ranker with random weights in evaluation mode, and its inputs."""
    encoder, inputs = ZOO["bert"].build()
    return Ranker(encoder).eval(), inputs
