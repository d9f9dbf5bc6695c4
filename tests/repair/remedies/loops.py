"""Loops that a tensor ends, each with the line that breaks the graph."""

from __future__ import annotations

from typing import Final

# name -> (line that breaks, source of f, inputs: expressions)
LOOPS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "newton that counts": (
        "while diff.abs().max() > 1e-3:",
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
        "while (b - a).max() > 1e-4:",
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
        "while shift > 1e-4:",
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
        "if (nxt == 0).all():",
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
        "while x.sum() > 1:",
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
        "if torch.allclose(new, x):",
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
    "a return of two": (
        "if step.norm() < 1e-4:",
        """
def f(x):
    for i in range(40):
        step = (x * x - 2) / (2 * x)
        x = x - step
        if step.norm() < 1e-4:
            return x, i
    return x, i
""",
        ("torch.ones(3)", "torch.tensor([2.0, 1e4])"),
    ),
    "the size of a number": (
        "while abs(f1.item()) > 1e-5 and n < 50:",
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
        "if rel.item() < 1e-3:",
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
        "while going:",
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
        "if x.max() > 9:",
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
        "while error > 1e-3:",
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
        "if g.norm() < 1e-3:",
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
        "while x.abs().max() > 1e-2:",
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
        "while h.abs().max() > 0.1:",
        """
def f(x):
    h = x.expand(3, -1)
    while h.abs().max() > 0.1:
        h = h.flip(0) * 0.5
    return h
""",
        ("torch.ones(1, 2)", "torch.zeros(1, 4)"),
    ),
    "a test of a shape inside": (
        "while x.max() > 0.1:",
        """
def f(x):
    while x.max() > 0.1:
        if x.dim() > 1:
            x = x * 0.5
        x = x / 3 if x.shape[0] > 2 else x - 1
    return x
""",
        ("torch.ones(3, 2)", "torch.ones(2)"),
    ),
    "fixed point with while True": (
        "if (y - x).abs().max() <= 1e-4:",
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
    "adaptive computation": (
        "while (halt < 0.99).any() and n < 8:",
        """
def f(x, w):
    halt = torch.zeros(x.shape[0])
    out = torch.zeros_like(x)
    n = 0
    while (halt < 0.99).any() and n < 8:
        p = torch.sigmoid(x @ w).squeeze(1) * (1 - halt)
        out = out + p.unsqueeze(1) * x
        halt = halt + p
        x = torch.tanh(x)
        n += 1
    return out
""",
        ("torch.ones(2, 3), torch.ones(3, 1)", "torch.zeros(2, 3), torch.ones(3, 1)"),
    ),
}

# What one flag, or a copy, cannot say: rewritten, each gave something else once.
JUMPS: Final[dict[str, tuple[str, str, str]]] = {
    "two returns": (
        "returns different values",
        "if x.max() < 0.1:",
        """
def f(x):
    for n in range(6):
        x = x * 0.5
        if x.max() < 0.1:
            return x * 2
        if x.min() < -1:
            return x - 5
    return x + 1
""",
    ),
    "nothing behind": (
        "no `return` follows it",
        "if x.max() < 0.1:",
        """
def f(x):
    for n in range(2):
        x = x * 0.5
        if x.max() < 0.1:
            return x
""",
    ),
    "nested break, later": (
        "`break` in it is not at the end",
        "if x.max() > 5:",
        """
def f(x):
    for n in range(6):
        x = x + 1
        if x.sum() > 0:
            if x.max() > 5:
                break
        x = x * 2
    return x
""",
    ),
    "counter set": (
        "sets n, which counts",
        "if x.max() > 30:",
        """
def f(x):
    for n in range(6):
        n += 1
        x = x + n
        if x.max() > 30:
            break
    return x, n
""",
    ),
    "counter before": (
        "n is set before it",
        "if x.max() > 30:",
        """
def f(x, k=0):
    n = 7
    for n in range(k):
        x = x + n
        if x.max() > 30:
            break
    return x, n
""",
    ),
    "inner return": (
        "is left in another way too",
        "if x.max() > 30:",
        """
def f(x):
    for n in range(6):
        for k in range(2):
            x = x + k
            if k == 1:
                return x
        if x.max() > 30:
            break
    return x
""",
    ),
    "another name changed in place later": (
        "x is changed in place later",
        "while x.max() < 3:",
        """
def f(x):
    y = x
    while x.max() < 3:
        x = x + 1
    y += 1
    return x, y
""",
    ),
    "a range with a step": (
        "goes over `range",
        "if x.max() > 30:",
        """
def f(x):
    for n in range(4, 1, -1):
        x = x + n
        if x.max() > 30:
            break
    return x, n
""",
    ),
    "a name set below two ifs": (
        "",
        "if x.max() > 3:",
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
    ),
    "a continue below another if": (
        "`continue` in it is not at the end",
        "if x.max() > 30:",
        """
def f(x):
    for n in range(6):
        x = x + 1
        if x.sum() > 3:
            if x.min() > 0:
                continue
            x = x - 2
        x = x * 2
        if x.max() > 30:
            break
    return x
""",
    ),
    "a break before a name is set": (
        "",
        "if x.max() > 3:",
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
    ),
    "an elif": (
        "it has an `elif`",
        "if x.max() > 30:",
        """
def f(x):
    for n in range(6):
        if x.sum() > 3:
            x = x + 1
        elif x.min() > 0:
            x = x * 3
        x = x * 2
        if x.max() > 30:
            break
    return x
""",
    ),
    "a name set on one side": (
        "z is set on one side only",
        "if x.max() > 3:",
        """
def f(x):
    for n in range(6):
        if x.sum() > 0:
            z = x * 2
        x = x + 1
        if x.max() > 3:
            break
        if x.sum() > 1:
            x = x + z
    return x
""",
    ),
    "a name of a loop around it": (
        "",
        "while y.max() < 3:",
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
    ),
}
