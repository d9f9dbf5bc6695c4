import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.threshold = 0.5

    def forward(self, x):
        scores = self.body(x)
        if scores.max().item() > self.threshold:
            scores = scores / 2
        return torch.histc(scores, 16)
