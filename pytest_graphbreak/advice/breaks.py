"""Families of graph breaks, the special before the general: the first that fits is taken.

The signs hold torch's own words, from 2.6 (free text) to 2.15 (``gb_type``).
Ids are not used: they have changed their meaning between releases.
"""

from __future__ import annotations

from pytest_graphbreak.advice.family import LIMIT, Family, Sign

_JUMP = (
    r"data-dependent (jump|branching)|generic_jump|data-dependent assertion|dynamic control flow"
)
_NONZERO = r"dynamic shape operator"
_SKIPPED = r"marked as skipped|skip function|inline in skipfiles|unsupported (Python )?builtin"
_BUILTIN = r"failed to trace builtin|builtin: "

BREAKS: tuple[Family, ...] = (
    Family(
        "loop",
        "a loop whose end depends on a tensor's values",
        "torch.while_loop, or a fixed number of steps and torch.where",
        (
            Sign(reason=_JUMP, code=r"^(el)?while\b"),
            Sign(reason=r"torch\.while_loop"),
            Sign(reason=_BUILTIN, detail=r"`range`[^\n]{0,200}Tensor"),
            Sign(reason=r"builtin: range .{0,200}TensorVariable"),
        ),
    ),
    Family(
        "assert",
        "an assert on a tensor with a message that is not a constant",
        'a constant text as the message (assert ok, "text"), or torch._assert_async(ok, "text")',
        (
            Sign(reason=_JUMP, code=r"^assert\b"),
            Sign(reason=r"assert with non-string message|data-dependent assertion"),
        ),
    ),
    Family(
        "cond",
        "torch.cond used in a way that it does not support",
        "branches that return new tensors of one shape and dtype, and change nothing in place",
        (
            Sign(reason=r"torch\.cond:"),
            Sign(reason=r"higher order op|HOP\b", code=r"\bcond\("),
        ),
    ),
    Family(
        "map",
        "torch map, scan or another higher order operator used in a way that it does not support",
        "tensors in, new tensors out, nothing mutated inside; for a short loop a plain Python for",
        (
            Sign(reason=r"torch\.(map|scan|associative_scan):"),
            Sign(reason=r"higher order op|HigherOrderOp|\bHOP\b"),
        ),
    ),
    Family(
        "branch",
        "an if on a tensor's values",
        "keep the choice in tensors (torch.where, torch.cond), or decide outside",
        (Sign(reason=_JUMP), Sign(reason=r"guard_scalar branch")),
    ),
    Family(
        "tolist",
        ".tolist(): a tensor read back as a Python list",
        "keep it a tensor (x.unbind()), or (integers) "
        "torch._dynamo.config.capture_scalar_outputs = True",
        (
            Sign(reason=r"tolist"),
            Sign(reason=r"data.dependent operator|Tensor\.item", code=r"\.tolist\("),
        ),
    ),
    Family(
        "item",
        ".item(), int(t), float(t): a tensor read back as a Python number",
        "keep the value a tensor, or torch._dynamo.config.capture_scalar_outputs = True",
        (
            Sign(reason=r"Tensor\.item|index\(Tensor\)|slicing with Tensor|non-scalar tensor"),
            Sign(reason=r"data.dependent operator", detail=r"_local_scalar_dense"),
            Sign(reason=r"data dependent operator: aten\._local_scalar_dense"),
        ),
    ),
    Family(
        "unbacked",
        "a question about a number that came from a tensor",
        "say what is known: torch._check(n >= 0), torch._check(n <= x.size(0)); or a mask",
        (Sign(reason=r"could not guard on data-dependent|GuardOnDataDependent|unbacked"),),
    ),
    Family(
        "compare",
        "torch.equal, torch.allclose: a comparison that returns a Python bool",
        "compare as a tensor ((a == b).all()) and choose with torch.where; check results outside",
        (Sign(reason=r"data.dependent operator"),),
    ),
    Family(
        "one-hot",
        "one_hot without num_classes",
        "give num_classes: torch.nn.functional.one_hot(x, num_classes=n)",
        (Sign(reason=r"one_hot"),),
    ),
    Family(
        "nonzero",
        "nonzero, unique, repeat_interleave: an output shape that depends on values",
        "a fixed shape (a mask, topk), or "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
        (
            Sign(reason=_NONZERO, code=r"nonzero\(|unique|where\(|repeat_interleave|bincount"),
            Sign(reason=_NONZERO, detail=r"unique|repeat_interleave|bincount"),
            Sign(
                reason=r"dynamic shape operator: aten\.(_unique|unique|repeat_interleave|bincount)"
            ),
        ),
    ),
    Family(
        "mask",
        "x[mask], masked_select: an output shape that depends on values",
        "torch.where(mask, x, 0), or torch._dynamo.config.capture_dynamic_output_shape_ops = True",
        (Sign(reason=_NONZERO),),
    ),
    Family(
        "print",
        "print in compiled code",
        "print after the call, or torch._dynamo.config.reorderable_logging_functions.add(print)",
        (
            Sign(reason=_BUILTIN, detail=r"operator `print`"),
            Sign(reason=r"builtin: print\b|reorder a debugging function"),
        ),
    ),
    Family(
        "logging",
        "logging in compiled code",
        "log after the call, or drop it: "
        "torch._dynamo.config.ignore_logger_methods.add(logging.Logger.info)",
        (Sign(reason=r"logging\.Logger|Logger not supported"),),
    ),
    Family(
        "warnings",
        "warnings.warn in compiled code",
        "warn outside, or torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",
        (
            Sign(reason=_SKIPPED, detail=r"warnings?\.warn`|function `warn`"),
            Sign(reason=r"builtin _warnings\.warn|skip function warn\b"),
        ),
    ),
    Family(
        "disabled",
        "a function under torch.compiler.disable",
        "take the disable away, or call the function before or after the compiled part",
        (Sign(reason=r"torch\.compiler\.disable|torch\._dynamo\.disable\(\) wrapped"),),
    ),
    Family(
        "disallowed",
        "an op that disallow_in_graph keeps out",
        "take the disallow_in_graph call away; torch.compiler.allow_in_graph(op) undoes it",
        (
            Sign(reason=_SKIPPED, detail=r"torch\._VariableFunctionsClass|`torch\._C\._nn\."),
            Sign(reason=r"unsupported [^\n]{0,200}(_VariableFunctionsClass|torch\._C\._nn\.)"),
        ),
    ),
    Family(
        "graph-break",
        "a graph break put there by hand",
        "take the torch._dynamo.graph_break() (or skip_frame, step_unsupported) call away",
        (
            Sign(reason=r"_dynamo\.(graph_break|skip_frame|step_unsupported)|function graph_break"),
            Sign(reason=r"Forced graph break"),
        ),
    ),
    Family(
        "random",
        "Python's or NumPy's random, or a torch.Generator, in compiled code",
        "torch.rand and friends; make the torch.Generator, and seed, before the compiled function",
        (
            Sign(reason=r"random\.Random|torch\.Generator|numpy\.random|_numpy\.random"),
            Sign(reason=_SKIPPED, detail=r"Random\.\w+|manual_seed"),
            Sign(reason=r"function manual_seed|Variable\(Generator\)"),
        ),
    ),
    Family(
        "numpy",
        "NumPy that Dynamo cannot turn into torch",
        "the torch function of that name, or a custom op (torch.library.custom_op) around it",
        (Sign(reason=r"numpy|ndarray"), Sign(reason=_SKIPPED, detail=r"\bnumpy\b")),
    ),
    Family(
        "context",
        "a context manager that Dynamo cannot enter, or a break inside one",
        "enter it outside the compiled function, or take out of it what breaks (a log line)",
        (
            Sign(reason=r"context manager|contextlib|contextmanager|ContextWrapping"),
            Sign(reason=r"\b(BEFORE|SETUP)_WITH\b"),
            Sign(reason=r"SKIPPED INLINING.*__(enter|exit)__"),
            Sign(reason=_SKIPPED, code=r"^(async )?with\b"),
        ),
    ),
    Family(
        "generator",
        "a generator that Dynamo cannot follow",
        "a list in place of the generator, made before the loop; keep print and the like out of it",
        (Sign(reason=r"generator"),),
    ),
    Family(
        "iterator",
        "an iterator that was begun outside of what is compiled, or left half-way by a break",
        "a list or a tuple in its place: list(steps); mend the break inside the comprehension",
        (
            Sign(reason=r"missing tp_iter(next)?\b|(unsupported|unimplemented) next\(\) call"),
            Sign(reason=r"^unsupported method call", detail=r"`__(iter|next)__` of class"),
            Sign(reason=r"call_method UserDefinedObjectVariable\(\w{1,40}\) __(iter|next)__"),
        ),
    ),
    Family(
        "loop-break",
        "a graph break inside a loop",
        "mend the break in the loop's body, or compile the body as a function of its own",
        (Sign(reason=r"graph break in loop|comprehension"),),
    ),
    Family(
        "no-tensor",
        "a function of torch that returns no tensor",
        "call it before the compiled part and pass the answer in; set flags around the call",
        (Sign(reason=r"op returned non-Tensor|non-single Tensor return"),),
    ),
    LIMIT,
    Family(
        "device",
        "tensors on different devices in one op",
        "move the tensor once, before the compiled function: register_buffer, or x.new_tensor(...)",
        (Sign(reason=r"device mismatch|same device"),),
    ),
    Family(
        "rnn",
        "RNN, GRU or LSTM",
        "torch._dynamo.config.allow_rnn = True (experimental), or call the layer outside",
        (Sign(reason=r"\bRNN\b|\bLSTM\b"),),
    ),
    Family(
        "sparse",
        "sparse or nested tensors",
        "make and use them outside the compiled function, or dense tensors with a mask inside",
        (Sign(reason=r"sparse|NestedTensor|nested_tensor"),),
    ),
    Family(
        "autograd-function",
        "a torch.autograd.Function that Dynamo cannot trace",
        "keep print, .item() and jvp out of it, or make it a custom op with register_autograd",
        (
            Sign(reason=r"autograd\.Function|autograd_function|AutogradFunction"),
            Sign(reason=r"\b(custom|defin\w*) [jv][vj]p\b"),
        ),
    ),
    Family(
        "autograd",
        "backward() or autograd.grad in compiled code",
        "compile the forward (or the loss) and call backward() outside the compiled function",
        (
            Sign(reason=r"\bbackward\(\)|Tensor\.backward|autograd\.grad|_autograd_grad"),
            Sign(reason=_SKIPPED, detail=r"function `grad`"),
            Sign(reason=r"skip function grad in"),
        ),
    ),
    Family(
        "parameter",
        "a Parameter or a module made in compiled code",
        "make parameters and modules in __init__, or use a plain tensor",
        (Sign(reason=r"nn\.Parameter|nn_parameter"),),
    ),
    Family(
        "requires-grad",
        "requires_grad_() in compiled code",
        "call requires_grad_() before the compiled function, or return .detach() of what it made",
        (Sign(reason=r"requires_grad"),),
    ),
    Family(
        "hook",
        "autograd or module hooks in compiled code",
        "register the hook outside the compiled function",
        (Sign(reason=r"\bhooks?\b|RemovableHandle|compiled autograd"),),
    ),
    Family(
        "deepcopy",
        "copy.deepcopy in compiled code",
        "x.clone() for a tensor; copy modules before the compiled function",
        (Sign(reason=r"deepcopy"),),
    ),
    Family(
        "repr",
        "a tensor turned into text",
        "make the text after the compiled call, from what it returns; or use x.shape, x.dtype only",
        (
            Sign(reason=r"repr\(\)|str\(\) method|call str\(\)"),
            Sign(reason=_BUILTIN, detail=r"operator `(repr|str|format)`"),
            Sign(reason=r"builtin: (repr|str|format)\b"),
        ),
    ),
    Family(
        "pointer",
        "data_ptr(), id(): the address of a tensor",
        "compare what you mean (shapes, values, a flag that you pass in) and not addresses",
        (Sign(reason=r"data pointer|call_id|\bid\(\)|data_ptr|id or hash value|FakeIdVariable"),),
    ),
    Family(
        "resize",
        "resize_, set_, share_memory_: a tensor's storage changed in place",
        "make a new tensor (x[:n], torch.empty, torch.cat) in place of changing the storage",
        (Sign(reason=r"Tensor\.(sparse_)?(resize|set_|share_memory)"),),
    ),
    Family(
        "sort",
        "sorted() with tensors as keys",
        "torch.sort(torch.stack(values)), or sort by a Python number",
        (Sign(reason=r"sort with non-constant"),),
    ),
    Family(
        "class",
        "a class defined in compiled code",
        "define the class at module level",
        (Sign(reason=r"BUILD_CLASS|__build_class__"),),
    ),
    Family(
        "import",
        "an import that fails in compiled code",
        "import at the top of the module",
        (Sign(reason=r"import failure|bad import|import a module"),),
    ),
    Family(
        "exception",
        "an exception that leaves the compiled function",
        "check arguments before the compiled function, so that nothing is raised inside it",
        (Sign(reason=r"observed exception|failed to raise|found no exception handler"),),
    ),
    Family(
        "fake",
        "an op that fails, or has no rule, when Dynamo runs it on shapes alone",
        "check that it runs uncompiled with these shapes; a custom op needs register_fake",
        (
            Sign(reason=r"fake ?tensor|no meta kernel|PT2-compliant|fake value"),
            Sign(reason=r"real value|example value"),
        ),
    ),
    Family(
        "backend",
        "the backend failed to compile the graph",
        'torch.compile(f, backend="eager"), then "aot_eager": the first that fails has the fault',
        (Sign(reason=r"backend compiler|BackendCompilerFailed"),),
    ),
    Family(
        "attribute",
        "an attribute set on a module or an object in a way that Dynamo cannot replay",
        "return the value, or register_buffer and copy_ into it, in place of setting an attribute",
        (
            Sign(reason=r"STORE_ATTR|setattr|__delattr__|__setattr__|pending mutation|side effect"),
            Sign(reason=r"set tensor attribute|mutate tensor data"),
            Sign(reason=_BUILTIN, detail=r"operator `(set|del)attr`"),
            Sign(reason=r"builtin: (set|del)attr\b"),
        ),
    ),
    Family(
        "distributed",
        "a collective that Dynamo cannot capture",
        "torch.distributed._functional_collectives, without async_op; or call it outside",
        (Sign(reason=r"async_op|P2P|torch\.distributed|FSDP"),),
    ),
    Family(
        "export",
        "a dimension that export found to be fixed, or constrained",
        "torch.export.Dim.AUTO for the dimensions that you do not need to name",
        (Sign(reason=r"constraints violated|\bDim\.|\bspecialized"),),
    ),
    Family(
        "script",
        "a TorchScript module",
        "compile the module that it was made from; torch.compile takes the place of torch.jit",
        (
            Sign(reason=r"torch\.jit|TorchScript|ScriptModule|jit_function"),
            Sign(reason=_SKIPPED, detail=r"_CachedForward"),
        ),
    ),
    Family(
        "subclass",
        "a tensor subclass",
        "plain tensors in the compiled function; wrap the result after the call",
        (
            Sign(
                reason=r"tensor subclass|as_subclass|__torch_function__ overrides|subclass default"
            ),
        ),
    ),
    Family(
        "reconstruct",
        "an object that cannot be made again after the graph",
        "return tensors and plain containers; make other objects after the compiled call",
        (Sign(reason=r"reconstruct|escaped (from compiled|Dynamo)|non-constructible closure"),),
    ),
    Family(
        "python-object",
        "a Python object with behaviour of its own",
        "take the value out of the object before the compiled part, and pass it in",
        (
            Sign(
                reason=r"__getattribute__|__getattr__|__hash__|__class__ assign|metaclass|tp_hash"
            ),
            Sign(reason=r"hashab|the hash of|equality comparison|tp_richcompare|set with tensors"),
            Sign(reason=r"\b(isinstance|issubclass|hasattr)\b"),
            Sign(reason=r"missing[ _](nb|sq|mp|len|hash|richcompare)_|\b(nb|sq)_\w{1,30}_impl"),
            Sign(reason=r"tp_as_number|user-defined __(len|repr)__|unsupported __[gs]etitem__"),
            Sign(reason=r"^unsupported method call", detail=r"__getattr(ibute)?__|__hash__"),
        ),
    ),
    Family(
        "user-error",
        "code that looks wrong in eager, too",
        'run it uncompiled (torch.compiler.set_stance("force_eager")): eager may fail, too',
        (
            Sign(reason=r"undefined local|deleted variable|TypeError from user|frame builtins"),
            Sign(reason=r"uninitialized (variable|cell)|key not found|bind arguments|bad args"),
            Sign(reason=r"length mismatch|shape mismatch|failed to broadcast|no arguments"),
        ),
    ),
    Family(
        "c-call",
        "a call into C, or into a function that Dynamo is told to skip",
        "call it before the compiled part, or wrap it in a custom op (torch.library.custom_op)",
        (
            Sign(reason=_SKIPPED),
            Sign(
                reason=r"implemented in C|C extensions?|not implemented in python|C-level|C method"
            ),
            Sign(reason=r"Graph break for an optional|pybind|third-party"),
        ),
    ),
    Family(
        "builtin",
        "a Python builtin with arguments that Dynamo has no rule for",
        "call it before the compiled part and pass the result in",
        (Sign(reason=_BUILTIN), Sign(reason=r"^unsupported (method|function) call")),
    ),
)
