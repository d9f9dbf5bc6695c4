"""Loops that a tensor ends, each with the line that breaks the graph."""

from __future__ import annotations

from typing import Final

# name -> (line that breaks, source of f, inputs: expressions)
LOOPS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "newton": (
        "while diff.abs().max() > tol and iterations < max_iter:",
        """
def f(x, tol=1e-3, max_iter=50):
    diff = torch.ones_like(x)
    iterations = 0
    while diff.abs().max() > tol and iterations < max_iter:
        x_new = x - 0.1 * x
        diff = x_new - x  # how far it went
        x = x_new
        iterations += 1
    return x
""",
        ("torch.ones(3)", "torch.zeros(3)", "torch.tensor([1e9, -4.0, 0.1])"),
    ),
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
    "newton with a break": (
        "if step.abs().max() < 1e-5:",
        """
def f(x):
    for i in range(40):
        step = (x * x - 2) / (2 * x)
        x = x - step
        if step.abs().max() < 1e-5:
            break
    return x, i
""",
        ("torch.ones(3)", "torch.tensor([2.0, 1e4])", "torch.full((2,), 2.0 ** 0.5)"),
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
    "bisection with a break in the middle": (
        "if (b - a).abs() < 1e-4:",
        """
def f(a, b):
    for _ in range(60):
        mid = (a + b) / 2
        if (b - a).abs() < 1e-4:
            break
        if mid.cos() - mid > 0:
            a = mid
        else:
            b = mid
    return mid
""",
        ("torch.tensor(0.0), torch.tensor(1.0)", "torch.tensor(-3.0), torch.tensor(5.0)"),
    ),
    "power iteration": (
        "if (v_new - v).norm() < 1e-5:",
        """
def f(a):
    v = torch.ones(a.shape[0]) / a.shape[0] ** 0.5
    for _ in range(200):
        w = a @ v
        v_new = w / w.norm()
        if (v_new - v).norm() < 1e-5:
            break
        v = v_new
    return v @ a @ v
""",
        ("torch.tensor([[2.0, 1.0], [1.0, 3.0]])", "torch.eye(3)"),
    ),
    "conjugate gradients": (
        "while rs.sqrt() > 1e-5:",
        """
def f(a, b):
    x = torch.zeros_like(b)
    r = b - a @ x
    p = r
    rs = r @ r
    while rs.sqrt() > 1e-5:
        ap = a @ p
        alpha = rs / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        rs_new = r @ r
        p = r + (rs_new / rs) * p
        rs = rs_new
    return x
""",
        (
            "torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.tensor([1.0, 2.0])",
            "torch.eye(3), torch.zeros(3)",
        ),
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
    "sampling until done": (
        "while not done.all():",
        """
def f(logits, tokens):
    done = torch.zeros(tokens.shape[0], dtype=torch.bool)
    n = 0
    while not done.all():
        last = logits[tokens[:, -1]].argmax(-1)
        last = torch.where(done, tokens[:, -1], last)
        tokens = torch.cat([tokens[:, 1:], last.unsqueeze(1)], 1)
        done = done | (last == 0)
        n += 1
    return tokens, n
""",
        (
            "torch.eye(4).roll(-1, 1), torch.tensor([[1, 2], [2, 3]])",
            "torch.eye(4).roll(-1, 1), torch.tensor([[3, 3], [3, 1]])",
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
    "beam search": (
        "while not finished.all() and step < 6:",
        """
def f(table, scores, last):
    finished = torch.zeros(2, dtype=torch.bool)
    step = 0
    while not finished.all() and step < 6:
        total = scores.unsqueeze(1) + table[last]
        scores, flat = total.flatten().topk(2)
        last = flat % 4
        finished = finished[flat // 4] | (last == 0)
        step += 1
    return scores, last
""",
        (
            "torch.arange(16.0).reshape(4, 4).sin(), torch.zeros(2), torch.tensor([1, 2])",
            "-torch.eye(4), torch.tensor([0.0, -1.0]), torch.tensor([3, 3])",
        ),
    ),
    "rk45": (
        "while t < 1.0:",
        """
def f(y, h, t):
    while t < 1.0:
        h = torch.minimum(h, 1.0 - t)
        k1 = -y
        k2 = -(y + h * k1)
        low = y + h * k1
        high = y + h * (k1 + k2) / 2
        err = (high - low).abs().max()
        if err < 1e-3:
            t = t + h
            y = high
        h = h * (0.9 * (1e-3 / (err + 1e-12)).sqrt()).clamp(0.2, 5.0)
    return y, t
""",
        (
            "torch.ones(2), torch.tensor(0.1), torch.tensor(0.0)",
            "torch.tensor([5.0]), torch.tensor(1.0), torch.tensor(0.5)",
        ),
    ),
    "gradient descent with momentum": (
        "while grad.norm() > 1e-3:",
        """
def f(x, target):
    velocity = torch.zeros_like(x)
    grad = x - target
    while grad.norm() > 1e-3:
        velocity = 0.5 * velocity - 0.2 * grad
        x = x + velocity
        grad = x - target
    return x
""",
        ("torch.zeros(4), torch.ones(4)", "torch.ones(2), torch.ones(2)"),
    ),
    "jacobi in place": (
        "while (a @ x - b).abs().max() > 1e-4:",
        """
def f(a, b, x):
    d = (a * torch.eye(a.shape[0])).sum(1)
    while (a @ x - b).abs().max() > 1e-4:
        x += (b - a @ x) / d
    return x * 1
""",
        ("torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.ones(2), torch.zeros(2)",),
    ),
    "jacobi with a view": (
        "while (a @ x - b).abs().max() > 1e-4:",
        """
def f(a, b, x):
    d = a.diagonal()
    while (a @ x - b).abs().max() > 1e-4:
        x += (b - a @ x) / d
    return x * 1
""",
        ("torch.tensor([[4.0, 1.0], [1.0, 3.0]]), torch.ones(2), torch.zeros(2)",),
    ),
    "a view of what changes": (
        "while (inner - rhs).abs().max() > 1e-2:",
        """
def f(u, rhs):
    inner = u[1:-1]
    while (inner - rhs).abs().max() > 1e-2:
        u[1:-1] = 0.5 * (inner + rhs)
    return u * 1
""",
        ("torch.zeros(6), torch.ones(4)",),
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
    "a return in the middle": (
        "if x.sum() < 1:",
        """
def f(x):
    while True:
        x = x * 0.5
        if x.sum() < 1:
            return x + 1
        x = x - 0.1
""",
        ("torch.ones(4)", "torch.tensor([0.5])"),
    ),
    "a return of what follows": (
        "if (y - x).abs().max() < 1e-4:",
        """
def f(x):
    for _ in range(50):
        y = x.cos()
        if (y - x).abs().max() < 1e-4:
            return y
        x = y
    return y
""",
        ("torch.ones(3)", "torch.tensor([0.739085])"),
    ),
    "a return of something else": (
        "if y.abs().max() < tol:",
        """
def f(x, tol=1e-3):
    for n in range(6):
        y = x * 0.1
        if y.abs().max() < tol:
            return y * 2
        x = y
    # It did not get small.
    return x - 1
""",
        ("torch.ones(3)", "torch.tensor([1e9])", "torch.zeros(2)"),
    ),
    "a return with a test": (
        "if x.max() > 3:",
        """
def f(x):
    while x.sum() < 10:
        if x.max() > 3:
            x = x * 2
            return x
        x = x + 1
    return x
""",
        ("torch.ones(3)", "torch.tensor([0.0, 4.0])", "torch.tensor([20.0])"),
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
    "an error read with float": (
        "while err > 1e-4:",
        """
def f(k):
    u = torch.ones(k.shape[0])
    err = float("inf")
    while err > 1e-4:
        v = 1.0 / (k.T @ u)
        new = 1.0 / (k @ v)
        err = float((new - u).abs().max())
        u = new
    return u[:, None] * k * v, err
""",
        ("torch.tensor([[1.0, 2.0], [3.0, 1.0]])", "torch.ones(3, 3)"),
    ),
    "an error read with item": (
        "if shift < 1e-4:",
        """
def f(x):
    for _ in range(60):
        y = x.cos()
        shift = (y - x).abs().max().item()
        x = y
        if shift < 1e-4:
            break
    return x, shift
""",
        ("torch.ones(3)", "torch.tensor([0.739085])"),
    ),
    "an error of one element": (
        "while worst > 0.5:",
        """
def f(x):
    worst = 1.0
    total = 0.0
    while worst > 0.5:
        x = x * 0.5
        worst = x[:1].item()
        total = total + worst
    return x * worst, total
""",
        ("torch.ones(3)", "torch.tensor([40.0, 1.0])"),
    ),
    "until all are close": (
        "if torch.allclose(new, centers, atol=1e-4):",
        """
def f(x, centers):
    for _ in range(20):
        near = torch.cdist(x, centers).argmin(1)
        hot = torch.nn.functional.one_hot(near, 2).to(x.dtype)
        new = (hot.T @ x) / hot.sum(0).clamp(min=1).unsqueeze(1)
        if torch.allclose(new, centers, atol=1e-4):
            break
        centers = new
    return centers, near
""",
        (
            "torch.tensor([[0.0], [1.0], [9.0], [8.0]]), torch.tensor([[0.0], [1.0]])",
            "torch.arange(12.0).reshape(6, 2), torch.tensor([[5.0, 5.0], [6.0, 6.0]])",
        ),
    ),
    "until labels stay": (
        "while not torch.equal(labels, before):",
        """
def f(x, labels):
    before = torch.full_like(labels, -1)
    n = 0
    while not torch.equal(labels, before):
        before = labels
        labels = (x.unsqueeze(1) * (labels + 1)).argmax(0) % 3
        n += 1
    return labels, n
""",
        ("torch.tensor([1.0, 2.0]), torch.tensor([0, 1, 1])", "torch.ones(2), torch.tensor([-1])"),
    ),
    "until a method says equal": (
        "if y.equal(x):",
        """
def f(x):
    while True:
        y = (x * 0.5).floor()
        if y.equal(x):
            return y
        x = y
""",
        ("torch.tensor([7.0, 100.0])", "torch.zeros(2)"),
    ),
    "until close, as a method": (
        "while not bool(x.allclose(y, rtol=1e-3)):",
        """
def f(x, y):
    while not bool(x.allclose(y, rtol=1e-3)):
        x, y = (x + y) / 2, (x * y).sqrt()
    return x
""",
        ("torch.ones(2), torch.tensor([4.0, 9.0])", "torch.ones(1), torch.ones(1)"),
    ),
    "a return and nothing behind": (
        "if x.sum() < 1:",
        """
def f(x):
    for _ in range(3):
        x = x * 0.5
        if x.sum() < 1:
            return x
""",
        ("torch.ones(4)",),
    ),
    "an integer read back": (
        "while n < 9:",
        """
def f(x):
    n = 0.0
    while n < 9:
        x = x + 1
        n = x.max().item()
    return x
""",
        ("torch.ones(4, dtype=torch.int64)",),
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
    "random steps": (
        "while x.abs().max() < 3:",
        """
def f(x):
    while x.abs().max() < 3:
        x = x + torch.randn_like(x)
    return x
""",
        ("torch.zeros(3)", "torch.full((2,), 5.0)"),
    ),
    "accept or reject": (
        "if best < 0.05:",
        """
def f(x):
    best = x.square().sum()
    for n in range(200):
        y = x + 0.3 * torch.randn_like(x)
        new = y.square().sum()
        if new < best or torch.rand(()) < 0.1:
            x, best = y, new
        if best < 0.05:
            break
    return x, best, n
""",
        ("torch.ones(2)", "torch.zeros(3)"),
    ),
    "a draw on one side": (
        "while x.max() < 4:",
        """
def f(x):
    while x.max() < 4:
        if x.min() > 1:
            x = x + torch.rand_like(x)
        else:
            x = x * 2
    return x, torch.rand(())
""",
        ("torch.ones(2)", "torch.tensor([0.3, 3.0])"),
    ),
    "a draw of an unknown shape": (
        "while x.sum() < 3:",
        """
def f(x):
    y = None
    while x.sum() < 3:
        y = torch.rand(2)
        x = x + y
    return x, y
""",
        ("torch.zeros(2)",),
    ),
    "a flag that is a test": (
        "while not done and n < 50:",
        """
def f(x):
    done, n = False, 0
    while not done and n < 50:
        new = x.cos()
        done = (new - x).abs().max().item() < 1e-3
        x = new
        n += 1
    return x, n, done
""",
        ("torch.ones(3)", "torch.tensor([0.739085])", "torch.full((2,), torch.nan)"),
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
    "an else that raises": (
        "if x.abs().max() < 1e-2:",
        """
def f(x, rounds=40):
    for n in range(rounds):
        x = x * 0.5
        if x.abs().max() < 1e-2:
            break
    else:
        raise RuntimeError(f"not below in {rounds} rounds")
    return x, n
""",
        ("torch.ones(3)", "torch.zeros(2)"),
    ),
    "an else that sets": (
        "if x.abs().max() < 1e-2:",
        """
def f(x, rounds=5):
    for n in range(rounds):
        x = x * 0.5
        if x.abs().max() < 1e-2:
            break
    else:
        x = x - 1
    return x
""",
        ("torch.ones(3)", "torch.zeros(2)"),
    ),
    "a raise behind": (
        "if y.abs().max() < 1e-2:",
        """
def f(x):
    for _ in range(40):
        y = x * 0.5
        if y.abs().max() < 1e-2:
            return y
        _, x = x, y
    raise ValueError("not below")
""",
        ("torch.ones(3)", "torch.zeros(2)"),
    ),
    "an index behind and": (
        "while n < 4 and a[n] == b[n]:",
        """
def f(a, b):
    n = 0
    while n < 4 and a[n] == b[n]:
        n += 1
    return n
""",
        ("torch.arange(4), torch.arange(4)", "torch.arange(4), torch.tensor([0, 1, 5, 3])"),
    ),
    "a relative limit": (
        "if delta < tol * max(1.0, abs(size.item())):",
        """
def f(x, tol=1e-3):
    size = x.norm()
    for n in range(60):
        x = x.cos() * 3
        new = x.norm()
        delta = (new - size).abs().item() / 2
        size = new
        if delta < tol * max(1.0, abs(size.item())):
            break
    return x, n
""",
        ("torch.ones(3)", "torch.tensor([0.0, 100.0])"),
    ),
    "in place of what is made": (
        "while delta > 1e-4:",
        """
def f(x, at):
    delta = torch.tensor(float("inf"))
    n = 0
    while delta > 1e-4:
        flow = torch.zeros(3).scatter_add_(0, at, x)
        flow += x.sum() / 30
        new = 0.5 * flow
        delta = (new - x).abs().sum()
        x = new
        n += 1
        if n >= 20:
            break
    return x, n
""",
        ("torch.ones(3), torch.tensor([0, 1, 1])", "torch.zeros(3), torch.tensor([2, 2, 2])"),
    ),
    "two breaks and a continue": (
        "if x.max() > 100:",
        """
def f(x):
    for n in range(30):
        x = x * 1.5
        if x.min() < 0:
            x = x + 1
            continue
        if x.max() > 100:
            break
        x = x - 0.1
        if x.sum() < 1:
            x = x * 0
            break
    return x, n
""",
        ("torch.ones(3)", "torch.full((2,), 0.05)", "torch.tensor([-1.0, 3.0])"),
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
    "a step in bounds": (
        "while y.abs().max() > 1e-3:",
        """
def f(x, shrink=0.5):
    h = 2.0
    y = x
    while y.abs().max() > 1e-3:
        t = h
        t *= shrink
        y = y - t * y
        h = min(1.5 * t, 1.25)
    return y, h
""",
        ("torch.ones(3)", "torch.tensor([100.0, -3.0])"),
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
    "a text that grows": (
        "if done.all():",
        """
def f(h, w):
    ids = torch.zeros(h.shape[0], 1, dtype=torch.long)
    done = torch.zeros(h.shape[0], dtype=torch.bool)
    for _ in range(8):
        h = torch.tanh(h @ w + ids[:, -1].unsqueeze(1))
        token = h.argmax(-1)
        ids = torch.cat([ids, token[:, None]], dim=1)
        done = done | (token == 2)
        if done.all():
            break
    return ids, (ids != 2).sum(1)
""",
        (
            "torch.eye(3)[:2], torch.eye(3).roll(1, 0) * 2",
            "torch.eye(3), -torch.eye(3)",
            "torch.eye(3)[2:], torch.eye(3)",
        ),
    ),
    "beams that grow": (
        "while not done.all() and n < limit:",
        """
def f(logits, limit=6):
    beams = logits.shape[0]
    seqs = torch.zeros(beams, 1, dtype=torch.long)
    scores = torch.arange(beams).to(logits.dtype)
    done = torch.zeros(beams, dtype=torch.bool)
    n = 0
    while not done.all() and n < limit:
        scores, best = (scores[:, None] + logits[seqs[:, -1]]).view(-1).topk(beams)
        parent = best // logits.shape[1]
        token = best % logits.shape[1]
        seqs = torch.cat((seqs[parent], token.unsqueeze(1)), 1)
        done = done[parent] | (token == 0)
        n += 1
    return seqs, scores, n
""",
        (
            "torch.arange(9.0).reshape(3, 3).sin().log_softmax(-1)",
            "torch.arange(9.0).reshape(3, 3).cos().log_softmax(-1)",
        ),
    ),
    "a row that grows": (
        "while x[-1] > 0.1 and n < 20:",
        """
def f(x):
    n = 0
    while x[-1] > 0.1 and n < 20:
        x = torch.cat([x, x[-1:] * 0.5])
        n += 1
    return x
""",
        ("torch.ones(2)", "torch.zeros(3)"),
    ),
    "a text up to a size": (
        "while not (ids[:, -1:] == 2).all() and ids.size(1) < limit:",
        """
def f(ids, limit=5):
    while not (ids[:, -1:] == 2).all() and ids.size(1) < limit:
        new = (ids[:, -1:] * 2 + ids.shape[1]) % 3
        ids = torch.cat([ids, new], dim=1)
    return ids, ids.shape[1]
""",
        ("torch.zeros(2, 1, dtype=torch.long)", "torch.full((1, 1), 2)", "torch.ones(1, 7)"),
    ),
    "a text that is read whole": (
        "if token == 2:",
        """
def f(ids):
    for _ in range(8):
        token = (ids.sum() + 1) % 3
        ids = torch.cat([ids, token.reshape(1)])
        if token == 2:
            break
    return ids
""",
        ("torch.zeros(1, dtype=torch.long)",),
    ),
    "a text without an end": (
        "while ids[-1] != 2:",
        """
def f(ids):
    while ids[-1] != 2:
        ids = torch.cat([ids, (ids[-1:] + 1) % 3])
    return ids
""",
        ("torch.zeros(1, dtype=torch.long)",),
    ),
    "another number at first": (
        "while (halted < 0.9).any() and n < 12:",
        """
def f(x):
    halted = torch.zeros(x.shape[0])
    n = 0
    while (halted < 0.9).any() and n < 12:
        flag = x.new_full((x.shape[0], 1), 1.0 if n == 0 else 0.25)
        x = x if n > 2 else x * 0.5
        halted = halted + 0.1 * (x + flag).abs().mean(1)
        n += 1
    return x, halted, n
""",
        ("torch.ones(2, 3)", "torch.zeros(1, 2)"),
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
    "a growing result": (
        "while x.sum() < 9:",
        """
def f(x):
    while x.sum() < 9:
        x = torch.cat([x, x])
    return x
""",
        ("torch.ones(4)",),
    ),
    "sinkhorn": (
        "if err < 1e-4:",
        """
def f(k):
    u = torch.ones(k.shape[0])
    for it in range(100):
        v = 1.0 / (k.T @ u)
        u_new = 1.0 / (k @ v)
        err = (u_new - u).abs().max()
        u = u_new
        if err < 1e-4:
            break
    return u[:, None] * k * v
""",
        ("torch.tensor([[1.0, 2.0], [3.0, 1.0]])", "torch.ones(3, 3)"),
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
    "backtracking line search": (
        "while loss(x - t * g) > loss(x) - 0.5 * t * (g * g).sum():",
        """
def f(x):
    def loss(y):
        return (y ** 4).sum()

    g = 4 * x ** 3
    t = 1.0
    while loss(x - t * g) > loss(x) - 0.5 * t * (g * g).sum():
        t *= 0.5
    return x - t * g
""",
        ("torch.ones(3)", "torch.tensor([3.0, -2.0])", "torch.full((1,), 0.1)"),
    ),
    "a running sum": (
        "while total.item() < 10.0:",
        """
def f(x):
    total = x.sum()
    n = 0
    while total.item() < 10.0:
        total = total + x.sum()
        n = n + 1
    return total, n
""",
        ("torch.ones(3)", "torch.tensor([20.0])"),
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
    "matrix square root": (
        "if (y @ y - a).abs().max() < 1e-4:",
        """
def f(a):
    y, z = a, torch.eye(a.shape[0])
    for _ in range(30):
        t = 0.5 * (3 * torch.eye(a.shape[0]) - z @ y)
        y, z = y @ t, t @ z
        if (y @ y - a).abs().max() < 1e-4:
            break
    return y
""",
        ("torch.tensor([[1.0, 0.2], [0.2, 0.8]])", "torch.eye(2)"),
    ),
}

# What one flag, or a copy, cannot say: rewritten, each gave something else once.
JUMPS: Final[dict[str, tuple[str, str, str]]] = {
    "return then break": (
        "is left in another way too",
        "if x.max() < 0.1:",
        """
def f(x):
    for n in range(6):
        x = x * 0.5
        if x.max() < 0.1:
            return x * 2
        if x.min() < -1:
            break
    return x + 1
""",
    ),
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
    "bare return": (
        "is left in another way too",
        "if x.max() < 0.1:",
        """
def f(x):
    for n in range(6):
        x = x * 0.5
        if x.max() < 0.1:
            return
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
    "nested break in break": (
        "`break` in it is not at the end",
        "if x.sum() > 0:",
        """
def f(x):
    for n in range(6):
        x = x + 1
        if x.sum() > 0:
            if x.max() > 5:
                x = x + 1
                break
            x = x * 3
            break
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
    "a counter without a name": (
        "sets _, which counts",
        "if x.max() > 30:",
        """
def f(x):
    for _ in range(6):
        m, _ = x.max(0)
        x = x + m
        if x.max() > 30:
            break
    return x
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
    "flag break": (
        "`break` in it is not at the end",
        "if x.max() > 30:",
        """
def f(x, flag=True):
    for n in range(6):
        x = x + n
        if flag:
            break
        if x.max() > 30:
            break
    return x, n
""",
    ),
    "flag return": (
        "is left in another way too",
        "if x.max() > 30:",
        """
def f(x, flag=True):
    for n in range(6):
        x = x + n
        if flag:
            return x
        if x.max() > 30:
            break
    return x
""",
    ),
    "else break": (
        "`break` in it is not at the end",
        "if x.max() < 30:",
        """
def f(x):
    for n in range(6):
        x = x + n
        if x.max() < 30:
            x = x * 2
        else:
            break
    return x
""",
    ),
    "a return and no more behind while": (
        "no `return` follows it",
        "while x.max() < 30:",
        """
def f(x):
    while x.max() < 30:
        x = x * 2 + 9
        if x.min() > 3:
            return x
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
