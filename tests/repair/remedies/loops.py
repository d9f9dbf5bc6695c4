"""Loops of numerical code that a tensor ends."""

from __future__ import annotations

from typing import Final

# name -> (source of f, inputs: expressions)
LOOPS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "newton that counts": (
        """
def f(x):
    diff = torch.ones_like(x)
    n = 0
    while diff.abs().max() > 1e-3:
        x_new = x - (x * x - 2) / (2 * x)
        diff = x_new - x
        x = x_new
        n += 1
    return x_new, diff, n
""",
        ("torch.ones(3)", "torch.tensor([2.0, 100.0])"),
    ),
    "bisection": (
        """
def f(a, b):
    while (b - a).max() > 1e-4:
        mid = (a + b) / 2
        if mid ** 3 - mid - 2 > 0:
            b = mid
        else:
            a = mid
    return (a + b) / 2
""",
        ("torch.tensor(1.0), torch.tensor(2.0)", "torch.tensor(1.5), torch.tensor(1.5)"),
    ),
    "k-means": (
        """
def f(x, centers):
    shift = float("inf")
    while shift > 1e-4:
        near = torch.cdist(x, centers).argmin(1)
        hot = torch.nn.functional.one_hot(near, 2).to(x.dtype)
        new = (hot.T @ x) / hot.sum(0).clamp(min=1).unsqueeze(1)
        shift = (new - centers).abs().max()
        centers = new
    return centers, near
""",
        (
            "torch.tensor([[0.0], [1.0], [9.0], [8.0]]), torch.tensor([[0.0], [1.0]])",
            "torch.arange(12.0).reshape(6, 2), torch.tensor([[5.0, 5.0], [6.0, 6.0]])",
        ),
    ),
    "greedy decoding into a buffer": (
        """
def f(logits, out):
    for i in range(1, out.shape[1]):
        nxt = logits[out[:, i - 1]].argmax(-1)
        out[:, i] = nxt
        if (nxt == 0).all():
            break
    return out
""",
        (
            "torch.eye(5).roll(-1, 1), torch.tensor([[2, 9, 9, 9, 9]])",
            "torch.eye(5).roll(-1, 1), torch.tensor([[4, 9], [3, 9]])",
        ),
    ),
    "a history": (
        """
def f(x):
    history = []
    while x.sum() > 1:
        x = x * 0.5
        history.append(x)
    return x, history
""",
        ("torch.ones(4)",),
    ),
    "a return of another name": (
        """
def f(x):
    for n in range(30):
        new = x.sin().cos()
        if torch.allclose(new, x):
            return new, new.sum(), n
        x = new - 1
    return x, new.sum(), n
""",
        ("torch.ones(3)", "torch.full((2,), 0.7)"),
    ),
    "the size of a number": (
        """
def f(x0, x1):
    f0, f1 = x0.cos() - x0, x1.cos() - x1
    n = 0
    while abs(f1.item()) > 1e-5 and n < 50:
        x2 = x1 - f1 * (x1 - x0) / (f1 - f0)
        x0, f0 = x1, f1
        x1 = x2
        f1 = x1.cos() - x1
        n += 1
    return x1, n
""",
        ("torch.tensor(0.0), torch.tensor(1.0)", "torch.tensor([-1.0]), torch.tensor([3.0])"),
    ),
    "locals behind a break": (
        """
def f(x, w):
    z = torch.zeros_like(x)
    for k in range(30):
        fz = torch.tanh(z @ w + x)
        rel = (fz - z).norm() / (fz.norm() + 1e-8)
        if rel.item() < 1e-3:
            break
        step = fz - z
        if step.max() > 0.5:
            half = step * 0.5
            step = half
        z = z + step
    return z, k
""",
        ("torch.ones(2, 2), torch.eye(2) * 0.3", "torch.zeros(1, 2), torch.eye(2)"),
    ),
    "a flag that is set": (
        """
def f(x):
    going = True
    while going:
        x = x * 0.5
        if x.max() < 0.1:
            going = False
    return x
""",
        ("torch.ones(3)", "torch.zeros(2)"),
    ),
    "the same return twice": (
        """
def f(x):
    for n in range(9):
        x = x * 2
        if x.max() > 9:
            return x, n
        x = x - 0.5
        if x.sum() < 0:
            return x, n
    return x, n
""",
        ("torch.ones(3)", "torch.full((2,), 0.1)", "torch.full((2,), 0.5)"),
    ),
    "a state of a wider dtype": (
        """
def f(cost):
    u = torch.zeros(2)
    error = torch.tensor(float("inf"))
    while error > 1e-3:
        previous = u
        u = (u - cost) / 2
        error = (u - previous).abs().max()
    return u
""",
        ("torch.ones(2)", "torch.tensor([3.0, 4.0], dtype=torch.float64)"),
    ),
    "a search along a line": (
        """
def f(x, shrink=0.5):
    w = x
    loss = w.dot(w)
    h = 8.0
    evals = 0
    for step in range(20):
        g = 2 * w
        if g.norm() < 1e-3:
            break
        t = h
        new = w - t * g
        loss_new = new.dot(new)
        evals += 1
        while loss_new > loss - 1e-4 * t * g.dot(g):
            t *= shrink
            new = w - t * g
            loss_new = new.dot(new)
            evals += 1
        w, loss = new, loss_new
        h = min(2.0 * t, 64.0)
    return w, loss, step, evals
""",
        ("torch.ones(3, dtype=torch.float64)", "torch.tensor([3.0, -7.0], dtype=torch.float64)"),
    ),
    "a loop with a break in a loop": (
        """
def f(x):
    n = 0
    while x.abs().max() > 1e-2:
        t = 1.0
        for _ in range(10):
            y = x - t * x
            if y.norm() < 0.9 * x.norm():
                break
            t = t / 2
        x = y
        n += 1
    return x, n
""",
        ("torch.ones(2, dtype=torch.float64)", "torch.zeros(2, dtype=torch.float64)"),
    ),
    "a start that is expanded": (
        """
def f(x):
    h = x.expand(3, -1)
    while h.abs().max() > 0.1:
        h = h.flip(0) * 0.5
    return h
""",
        ("torch.ones(1, 2)", "torch.zeros(1, 4)"),
    ),
    "fixed point with while True": (
        """
def f(x):
    while True:
        y = x.cos()
        if (y - x).abs().max() <= 1e-4:
            break
        x = y
    return x, y
""",
        ("torch.ones(3)", "torch.tensor([0.739085])"),
    ),
    "a name set below two ifs": (
        """
def f(x):
    for n in range(6):
        t = x
        if x.sum() > 0:
            if x.max() > 1:
                t = x * 2
        x = x + t + 1
        if x.max() > 3:
            break
    return x
""",
        ("torch.tensor([1.0, 2.0])", "torch.tensor([-3.0, 7.0])", "torch.tensor([-1.0, -2.0])"),
    ),
    "a break before a name is set": (
        """
def f(x):
    z = x[:1]
    for n in range(3):
        if x.max() > 3:
            break
        z = x * 2
        x = x + z.sum() + 1
    return z
""",
        ("torch.tensor([1.0, 2.0])", "torch.tensor([-3.0, 7.0])", "torch.tensor([-1.0, -2.0])"),
    ),
    "a name of a loop around it": (
        """
def f(x):
    t = x * 0
    y = x
    for k in range(2):
        x = x + t
        y = x
        while y.max() < 3:
            t = y
            y = y + 1
    return x
""",
        ("torch.tensor([1.0, 2.0])", "torch.tensor([-3.0, 7.0])", "torch.tensor([-1.0, -2.0])"),
    ),
}
