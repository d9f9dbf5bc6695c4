"""Which kind of compile failure a test died of, and what to gather next.

Pure: the name of the exception, its message and the traceback's text in, a
``Triage`` out. The rules hold the words of torch 2.6 to 2.15 and of torch_xla
2.9, as those versions raise them; the words of Triton, CUDA and TT are taken
from issues, since no such device was at hand. First rule that fits wins.

Ask only for a test that compiled something: values that differ are called a
matter of accuracy here, whatever they were compared with.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from pytest_graphbreak import advice
from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.model.record import NOWHERE, Break, Frame

RUN = "{run}"
"""Stands in a command for what runs the test: ``pytest tests/test_a.py::test_b``."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to gather. ``what`` says what it tells, ``command`` is typed as it stands.

    A command that has to run the test holds ``RUN``.
    """

    what: str
    command: str

    def line(self, run: str) -> str:
        """The command, with what runs the test filled in."""
        return self.command.replace(RUN, run)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure: ``meaning`` is one or two sentences, ``steps`` the best first."""

    name: str
    title: str
    meaning: str
    steps: tuple[NextStep, ...]


@dataclass(frozen=True, slots=True)
class Triage:
    """What was found. ``topic`` is for ``graphbreak explain``, ``broke`` the graph break.

    ``broke`` is there for errors of ``fullgraph=True``: it is told, and advised
    on, like any other break. Its count is 1 and its layer is dynamo.
    """

    kind: Kind
    topic: str | None = None
    broke: Break | None = None

    @property
    def short(self) -> str | None:
        """The line of advice, if there is one."""
        if self.broke is not None:
            return advice.short(self.broke)
        found = advice.explain(self.topic) if self.topic else None
        return found.short if found else None

    def lines(self, run: str, tool: str = "graphbreak") -> tuple[str, ...]:
        """A few lines for a report. ``run`` runs the test again, ``tool`` starts graphbreak."""
        lines = [f"{self.kind.title}: {self.kind.meaning}"]
        if self.broke is not None:
            name = f"{self.broke.id}  " if self.broke.id else ""
            lines.append(f"  {name}{self.broke.reason}")
        if self.short:
            lines.append(f"  try: {self.short}")
        for step in self.kind.steps:
            lines += [f"  {step.what}:", f"    {step.line(run)}"]
        if self.topic:
            lines.append(f"  more: {tool} explain {self.topic}")
        return tuple(lines)


FrameMaker = Callable[[str, int, str, str], Frame]
"""Makes the place of a line: file as torch names it, line, function, source line."""

_STAGES = NextStep(
    "find the stage: the first backend of these that fails has the fault",
    'torch.compile(f, backend="eager"), then "aot_eager", then "aot_eager_decomp_partition"',
)
_DEBUG = NextStep(
    "keep all graphs and code, in torch_compile_debug/", f"TORCH_COMPILE_DEBUG=1 {RUN}"
)
_CODE = NextStep(
    "see the code and the schedule, in one thread",
    f"TORCHINDUCTOR_COMPILE_THREADS=1 TORCH_LOGS=output_code,schedule {RUN}",
)
_MINIFY = NextStep(
    "make it small: run the minifier_launcher.py that this names",
    f"TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=2 {RUN}",
)
_MINIFY_ANY = NextStep(
    "the same for a backend other than inductor",
    f"TORCHDYNAMO_REPRO_AFTER=dynamo TORCHDYNAMO_REPRO_LEVEL=2 {RUN}",
)
_UNCOMPILED = NextStep(
    "see whether it fails uncompiled, too (the gate is red then, look at the test's own error)",
    f"TORCHDYNAMO_DISABLE=1 {RUN}",
)

GRAPH_BREAK = Kind(
    "graph-break",
    "graph break under fullgraph",
    "the code breaks the graph, and fullgraph=True makes an error of the first break.",
    (
        NextStep(
            "see every break, not the first alone: without fullgraph=True",
            f"TORCH_LOGS=graph_breaks {RUN}",
        ),
    ),
)
SHAPES = Kind(
    "shapes",
    "dynamic shapes",
    "a size that was to be dynamic is fixed by the code, or the code asks for a value that "
    "is not known yet.",
    (NextStep("see where a size was fixed", f"TORCH_LOGS=+dynamic {RUN}"),),
)
RECOMPILES = Kind(
    "recompile-limit",
    "too many recompiles",
    "the same code was compiled again and again, since something varies from call to call.",
    (
        NextStep("see each recompile and the guard that failed", f"TORCH_LOGS=recompiles {RUN}"),
        NextStep(
            "all guards that failed, not the first alone", f"TORCH_LOGS=recompiles_verbose {RUN}"
        ),
    ),
)
BACKEND = Kind(
    "backend",
    "backend failure",
    "Dynamo made the graph, and the backend could not compile it.",
    (_STAGES, _CODE, _DEBUG, _MINIFY, _MINIFY_ANY),
)
DEVICE = Kind(
    "device-compiler",
    "device compiler failure",
    "the graph reached the device's compiler or runtime (XLA, TT), and that refused it. "
    "Its reason is in its log, not in the exception.",
    (
        NextStep(
            "on TT, the log with the stage that failed",
            f"TTXLA_LOGGER_LEVEL=DEBUG {RUN} 2> tt.log; graphbreak analyze tt.log",
        ),
        NextStep("on XLA, all modules", f"XLA_FLAGS=--xla_dump_to=xla_dump {RUN}"),
        NextStep(
            "which Python line started the graph",
            f"PT_XLA_DEBUG_LEVEL=2 PT_XLA_DEBUG_FILE=xla.txt {RUN}",
        ),
    ),
)
ACCURACY = Kind(
    "accuracy",
    "values differ",
    "the compiled code ran, and its values are not the expected ones.",
    (
        _STAGES,
        NextStep(
            "inductor: find the smallest graph that differs",
            f"TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=4 {RUN}",
        ),
        NextStep(
            "another backend: the same after Dynamo",
            f"TORCHDYNAMO_REPRO_AFTER=dynamo TORCHDYNAMO_REPRO_LEVEL=4 {RUN}",
        ),
        NextStep(
            "inductor: stop at the first NaN or Inf",
            f"TORCHINDUCTOR_NAN_ASSERTS=1 {RUN}",
        ),
        _UNCOMPILED,
    ),
)
OP = Kind(
    "op",
    "an op failed while tracing",
    "Dynamo runs each op on shapes alone, and this one failed: wrong shapes or devices, or a "
    "custom op without a rule for its shapes.",
    (_UNCOMPILED,),
)
INTERNAL = Kind(
    "internal",
    "internal error of Dynamo",
    "the compiler itself failed; a newer torch may have mended it, another way to write the "
    "line goes round it.",
    (
        NextStep("the compiler's own stack", f"TORCHDYNAMO_VERBOSE=1 {RUN}"),
        NextStep("what it traced last", f"TORCH_LOGS=+dynamo {RUN} 2> dynamo.log"),
        _UNCOMPILED,
    ),
)
RUNTIME = Kind(
    "runtime",
    "crash of the runtime",
    "the compiled code was running. On a device the place that is shown may be later than the "
    "fault.",
    (
        NextStep(
            "CUDA: let each launch wait, so that the place is right",
            f"CUDA_LAUNCH_BLOCKING=1 {RUN}",
        ),
        NextStep(
            "a process that died: alone, without xdist and forked; pytest prints where it was",
            RUN,
        ),
        NextStep("the C++ side of the stack", f"TORCH_SHOW_CPP_STACKTRACES=1 {RUN}"),
        NextStep("see the code that ran", f"TORCH_LOGS=output_code {RUN}"),
        _UNCOMPILED,
    ),
)
MEMORY = Kind(
    "memory",
    "out of memory",
    "the device had no room left, for the tensors or for what compiling needs.",
    (
        NextStep("see whether recompiles pile up", f"TORCH_LOGS=recompiles {RUN}"),
        _UNCOMPILED,
    ),
)
TRITON = Kind(
    "triton",
    "Triton failure",
    "inductor wrote a kernel, and Triton could not compile or launch it.",
    (_CODE, _DEBUG, _MINIFY),
)
SETUP = Kind(
    "setup",
    "the compiler is not complete here",
    "something that the backend needs is not installed, or its name is wrong.",
    (NextStep("see what is installed", "python -m torch.utils.collect_env"),),
)

KINDS = (
    GRAPH_BREAK,
    SHAPES,
    RECOMPILES,
    BACKEND,
    DEVICE,
    ACCURACY,
    OP,
    INTERNAL,
    RUNTIME,
    MEMORY,
    TRITON,
    SETUP,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Fits if every part that is given is found.

    ``error`` is the whole name of the exception, ``place`` is searched in the
    name of the file that raised it, ``trace`` in all of the traceback.
    """

    kind: Kind
    error: str = ""
    message: str = ""
    place: str = ""
    trace: str = ""
    topic: str | None = None

    def fits(self, error: str, message: str, place: str, trace: str) -> bool:
        if self.error and not re.fullmatch(self.error, error):
            return False
        parts = ((self.message, message), (self.place, place), (self.trace, trace))
        return all(not part or re.search(part, text) for part, text in parts)


_GENERATED = r"/torchinductor_|/[a-z0-9]{2}/c[a-z0-9]{51}\.py|<eval_with_key>"
"""Files that inductor or FX wrote: code that runs, not code that compiles."""

_RULES: tuple[_Rule, ...] = (
    _Rule(SETUP, error="InvalidBackend", topic="backend"),
    _Rule(SETUP, message=r"InvalidCxxCompiler|No working C\+\+ compiler|Failed to find C compiler"),
    _Rule(SETUP, message=r"TritonMissing|Cannot find a working triton|Python\.h: No such file"),
    _Rule(TRITON, error=r"OutOfResources|PTXASError|MLIRCompilationError|CompileTimeAssertion\w+"),
    _Rule(TRITON, message=r"OutOfResources: out of resource|No valid triton configs|PTXASError"),
    _Rule(TRITON, message=r"triton\.(compiler|runtime)\.|CompilationError: at \d+:\d+"),
    _Rule(TRITON, error="CompilationError", message=r"^at \d+:\d+"),
    _Rule(RECOMPILES, error=r"RecompileLimitExceeded|FailOnRecompileLimitHit", topic="limit"),
    _Rule(RECOMPILES, error="RecompileError", topic="recompile"),
    _Rule(RECOMPILES, message=r"Detected recompile when torch\.compile stance", topic="recompile"),
    _Rule(
        RECOMPILES,
        message=r"^(\w+_limit reached|Dynamo (recompile|cache) limit exceeded)",
        topic="limit",
    ),
    _Rule(
        RECOMPILES,
        message=r"Maximum number of different graphs allowed per function exceeded",
        topic="device-recompile",
    ),
    _Rule(ACCURACY, error="AccuracyError"),
    _Rule(ACCURACY, error="AssertionError", message=r"Tensor-likes are not (close|equal)"),
    _Rule(
        ACCURACY, error="AssertionError", message=r"PCC comparison failed|Not equal to tolerance"
    ),
    _Rule(ACCURACY, error="AssertionError", trace=r"assert not \w+\.is(nan|inf)\(\)\.any\(\)"),
    _Rule(MEMORY, error="OutOfMemoryError"),
    _Rule(MEMORY, message=r"CUDA out of memory|RESOURCE_EXHAUSTED|Out of Memory: Not enough space"),
    _Rule(RUNTIME, message=r"CUDA error|HIP error|device-side assert|illegal memory access"),
    _Rule(RUNTIME, message=r"CUDNN_STATUS|CUBLAS_STATUS|Segmentation fault|Fatal Python error"),
    _Rule(RUNTIME, message=r"CRASHED with signal|^worker '.*' crashed"),
    _Rule(SHAPES, message=r"Constraints violated", topic="export"),
    _Rule(SHAPES, message=r"Could not guard on data-dependent expression", topic="unbacked"),
    _Rule(SHAPES, error=r"ConstraintViolationError|GuardOnDataDependentSymNode", topic="unbacked"),
    _Rule(OP, message=r"Unhandled FakeTensor Device Propagation", topic="device"),
    _Rule(OP, message=r"Expected XLA tensor\. Got", topic="split-cpu"),
    _Rule(OP, error="TorchRuntimeError", topic="fake"),
    _Rule(
        GRAPH_BREAK,
        message=r"Unexpected execution happens inside the compiled function",
        topic="access",
    ),
    _Rule(GRAPH_BREAK, error=r"Unsupported|UncapturedHigherOrderOpError|UserError"),
    _Rule(
        DEVICE, message=r"Bad StatusOr access|Error code: \d+\s*(\n|$)|XlaRuntimeError|stablehlo\."
    ),
    _Rule(BACKEND, error=r"BackendCompilerFailed|InductorError|LoweringException|CppCompileError"),
    _Rule(BACKEND, error=r"SubprocException|ReluCompileError"),
    _Rule(INTERNAL, error=r"InternalTorchDynamoError|ResetRequired|IncorrectUsage"),
    _Rule(INTERNAL, message=r"Guard (check )?failed( on the same frame|:)"),
    _Rule(INTERNAL, message=r"TORCHDYNAMO_VERBOSE=1 "),
    _Rule(
        INTERNAL,
        message=r"\nfrom user code:\n(?:(?!\nfrom user code:\n)[\s\S])*TORCHDYNAMO_VERBOSE",
    ),
    _Rule(RUNTIME, place=_GENERATED),
    _Rule(BACKEND, place=r"/torch/_inductor/|/torch/_functorch/|/torch_xla/_dynamo/"),
    _Rule(BACKEND, message=r"While executing %\w+ : \[num_users="),
    _Rule(INTERNAL, place=r"/torch/_dynamo/(?!external_utils|eval_frame)"),
)


def triage(
    exception_type_name: str,
    message: str,
    traceback_text: str = "",
    frame: FrameMaker | None = None,
) -> Triage | None:
    """The kind of a compile failure, or None if it does not look like one.

    The exception's name may be qualified (``torch._dynamo.exc.Unsupported``).
    ``frame`` makes the place of a break, as ``Places.frame`` does; without it
    files are named by their last part.
    """
    error = exception_type_name.rsplit(".", 1)[-1]
    place = _last_place(traceback_text)
    rule = next((one for one in _RULES if one.fits(error, message, place, traceback_text)), None)
    if rule is None:
        return None
    if rule.kind is GRAPH_BREAK and rule.topic is None:
        broke = _break(message, frame or _by_last_part)
        family = advice.family(broke)
        return Triage(rule.kind, broke.id or (family.name if family else None), broke)
    return Triage(rule.kind, rule.topic or _topic(rule.kind))


def of_error(error: BaseException, command: str, tool: str = "graphbreak") -> tuple[str, ...]:
    """The lines for the report of a test that died of ``error``; empty if it is no compile failure.

    ``command`` runs the test again, ``tool`` starts graphbreak. A failure that was raised while
    another was handled is looked at first, then the one below it: backends wrap what the compiler
    said.
    """
    from pytest_graphbreak.text.safe import console

    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        trace = "".join(traceback.format_exception(type(one), one, one.__traceback__, chain=False))
        found = triage(type(one).__name__, str(one), trace)
        if found is not None:
            return tuple(map(console, ("", *found.lines(command, tool))))
        one = one.__cause__
    return ()


def _topic(kind: Kind) -> str | None:
    return "backend" if kind in (BACKEND, TRITON) else None


_PLACE = re.compile(r"^(?:  File \"(.+?)\", line \d+|(\S[^\n:]*\.py):\d+(?::|$))", re.MULTILINE)


def _last_place(traceback_text: str) -> str:
    """The file in which the exception was raised: Python's notation, or pytest's."""
    places = _PLACE.findall(traceback_text.replace("\\", "/"))
    return next((one or other for one, other in reversed(places)), "")


_HIGHER_ORDER = re.compile(
    r"\A.*?unless it is captured completely with torch\.compile\.\s+Got (?:graph break/error:)?\s*",
    re.DOTALL,
)
_USER_CODE = re.compile(
    r"^ *File \"(?P<file>.+?)\", line (?P<line>\d+), in (?P<name>[^\"\n]+)\n(?P<code> +\S.*)?",
    re.MULTILINE,
)
_OF_TORCH = re.compile(r"[/\\](site|dist)-packages[/\\]torch(_xla)?[/\\]")


def _break(message: str, frame: FrameMaker) -> Break:
    """The graph break that an error of ``fullgraph=True`` tells."""
    text = _HIGHER_ORDER.sub("", message)
    why = messages.reason(text)
    stack = tuple(_frames(text, frame))
    return Break(
        layer="dynamo",
        reason=why.text,
        where=stack[-1] if stack else NOWHERE,
        id=why.id,
        explanation=why.explanation,
        hints=why.hints,
        stack=stack,
    )


def _frames(message: str, frame: FrameMaker) -> list[Frame]:
    """The user's stack from an error's text, outermost first; torch's own frames left out."""
    _, _, user_code = message.partition("from user code:")
    return [
        frame(found["file"], int(found["line"]), found["name"], (found["code"] or "").strip())
        for found in _USER_CODE.finditer(user_code)
        if not _OF_TORCH.search(found["file"])
    ]


def _by_last_part(file: str, line: int, function: str, code: str) -> Frame:
    return Frame(PurePath(file).name, function, line, code)
