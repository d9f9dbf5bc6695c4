"""One function replaced by a wrapper that looks on, and put back.

For functions that the user's code calls at run time. Dynamo's frame hook may be
active then: it must not find our Python frames, or it would compile them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Before = Callable[[tuple[Any, ...]], Any]
"""Called with the positional arguments before the original; what it returns goes to ``After``."""

After = Callable[[Any, Any], None]
"""Called with that token and the result, which is None after an exception too."""


class Patch:
    """While attached, ``before`` and ``after`` run around each call. They must not raise.

    Another tool may have wrapped ours by the time it has to go. Then ours stays
    in the chain and only passes calls on: taking it out would throw theirs away.
    """

    def __init__(self, owner: Any, attribute: str, before: Before, after: After) -> None:
        """Raises ``AttributeError`` where there is no such attribute."""
        from torch._C._dynamo.eval_frame import set_eval_frame
        from torch._dynamo.decorators import skip_code

        self.owner = owner
        self.attribute = attribute
        self.original = original = getattr(owner, attribute)
        self._inherited = isinstance(owner, type) and attribute not in vars(owner)
        self._live = True

        def patched(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._live:
                return original(*args, **kwargs)
            hook = set_eval_frame(None)
            token = before(args)
            set_eval_frame(hook)
            result = None
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                hook = set_eval_frame(None)
                after(token, result)
                set_eval_frame(hook)

        skip_code(patched.__code__)
        self.patched = functools.update_wrapper(patched, original)
        setattr(owner, attribute, patched)

    def remove(self) -> None:
        self._live = False
        if vars(self.owner).get(self.attribute) is not self.patched:
            return
        if self._inherited:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.original)
