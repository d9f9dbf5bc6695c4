"""A file with every key, and files that are refused, each with its message."""

from __future__ import annotations

HEAD = 'version: 1\nprofile: cpu\ntorch: "2.9"\n'


FULL = """\
version: 1
profile: xla-cpu
torch: "2.9"
tests:
  test_mlp:
    graphs: {dynamo: 1, xla: 1}
  test_longformer:
    note: the global-attention flag is read back to Python
    graphs: {dynamo: 4, xla: 6}
    recompiles: {dynamo: 1}
    breaks:
      - reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
        id: GB0124
        where: transformers/models/longformer/modeling_longformer.py::LongformerEncoder.forward
        code: is_global_attn = is_index_global_attn.flatten().any().item()
        count: 2
    eager:
      - where: a.py::f
    overrides:
      tt-n150:
        graphs: {xla: 7}
        recompiles: {dynamo: 0}
        breaks: []
  test_all_models:
    ungated: too slow
    cases:
      resnet/50-single_device-inference:
        graphs: {dynamo: 1, xla: 1}
      other:
        note: its own
        ungated: for itself
  TestBlock::test_forward:
    graphs: {dynamo: 1}
"""


def entry(body: str) -> str:
    """A file with one entry; its body begins on line 6."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{HEAD}tests:\n  test_a:\n{lines}"


REFUSED = [
    # what is wrong with the file as a whole
    ("", 1, "the file is empty"),
    ("# only a comment\n", 1, "the file is empty"),
    ("- a\n", 1, "the file must be a mapping"),
    ("just text\n", 1, "the file must be a mapping"),
    (HEAD, 1, "the file has no tests; add tests:"),
    ("profile: cpu\ntests: {}\n", 1, "the file has no version"),
    ("version: 1\ntests: {}\n", 1, "the file has no profile"),
    (HEAD + "tests:\n", 4, "tests must be a mapping of .*, not nothing"),
    (HEAD + "tests: []\n", 4, "tests must be a mapping .* not a list"),
    ("version: 2\nprofiles: cpu\ntests: {}\n", 1, "version 2 is not known"),
    ('version: "1"\nprofile: cpu\ntests: {}\n', 1, "version must be the number 1, not text"),
    ("version: true\nprofile: cpu\ntests: {}\n", 1, "version must be the number 1, not true or"),
    ("version: 1\nprofile: 3\ntests: {}\n", 2, 'profile must be text, not a number.*quote it: "3"'),
    ("version: 1\nprofile: ''\ntests: {}\n", 2, "profile is empty"),
    ("version: 1\nprofile: cpu\ntorch: 2.9\ntests: {}\n", 3, 'torch must be text.*quote it: "2.9"'),
    ("version: 1\nprofile: cpu\ntorch: new\ntests: {}\n", 3, "torch is 'new', no version"),
    (HEAD + "test: {}\n", 4, "the file has an unknown key 'test'; did you mean tests"),
    (
        HEAD + "zzz: 1\ntests: {}\n",
        4,
        "unknown key 'zzz'; allowed: version, profile, torch, jax, packages, tests",
    ),
    (HEAD + "profile: b\ntests: {}\n", 4, "duplicate key 'profile', first on line 2"),
    (HEAD + "tests: {}\n---\nversion: 1\n", 5, "a second YAML document"),
    # the YAML itself
    (HEAD + "<<<<<<< HEAD\ntests: {}\n=======\n", 4, "marker <<<<<<<; take one side .*-update"),
    (HEAD + "tests:\n  a: {}\n>>>>>>> theirs\n", 6, "merge-conflict marker >>>>>>>"),
    (HEAD + "tests:\n  a: {}\n=======\n  b: {}\n", 6, "merge-conflict marker ======="),
    (HEAD + "tests:\n\ttest_a: {}\n", 5, "a tab in the indentation"),
    (HEAD + "tests:\n  a: {\n", 6, "not valid YAML"),
    (HEAD + "tests:\n  a: {}\n b: {}\n", 6, "not valid YAML"),
    (HEAD + 'tests:\n  "a: {}\n', 6, "not valid YAML"),
    (HEAD + "tests:\n  a: &x {}\n", 5, r"an anchor \(&x\)"),
    (HEAD + "tests:\n  a: *x\n", 5, r"an alias \(\*x\)"),
    (HEAD + "tests:\n  &x a: {}\n", 5, r"an anchor \(&x\)"),
    (HEAD + "tests:\n  *x : {}\n", 5, r"an alias \(\*x\)"),
    (HEAD + "tests: !!map {}\n", 4, "a YAML tag"),
    (HEAD + "tests:\n  a: !!python/object/apply:os.system [true]\n", 5, "a YAML tag .*os.system"),
    (HEAD + "tests:\n  !!str a: {}\n", 5, "a YAML tag"),
    (entry("note: !secret x"), 6, r"a YAML tag \(!secret\)"),
    (HEAD + "tests:\n  ? [a, b]\n  : {}\n", 5, "a key that is a list or a mapping"),
    (HEAD + "tests:\n  <<: {}\n", 5, "the key << is not text in YAML"),
    (HEAD + "tests:\n  1: {}\n", 5, 'the key 1 is not text in YAML; quote it: "1"'),
    (HEAD + "tests:\n  yes: {}\n", 5, 'quote it: "yes"'),
    (HEAD + "tests:\n  ?\n  : {}\n", 5, "is not text in YAML"),
    (HEAD + "tests:\n  : {}\n", 5, "not valid YAML"),
    (HEAD + "tests: " + "[" * 40, 4, "nested more than 16 deep"),
    (HEAD + "tests:\n  a: \x07\n", 5, r"the character U\+0007 is not allowed"),
    (HEAD + "tests:\n  a: \x00\n", 5, r"the character U\+0000 is not allowed"),
    # entries
    (HEAD + "tests:\n  test_a:\n", 5, "'test_a' must be a mapping of .*, not nothing"),
    (HEAD + "tests:\n  test_a: 3\n", 5, "'test_a' must be a mapping .* not a number"),
    (HEAD + 'tests:\n  "": {}\n', 5, "tests has a key without a name; name it"),
    (HEAD + "tests:\n  a: {}\n  b: {}\n  'a': {}\n", 7, "duplicate key 'a', first on line 5"),
    (entry("grphs: {dynamo: 1}"), 6, "'test_a' has an unknown key 'grphs'; did you mean graphs"),
    (entry("graphs: 3"), 6, "graphs must be a mapping of layers"),
    (entry("graphs: {vulkan: 1}"), 6, "unknown layer 'vulkan'; allowed: dynamo, xla, tt, jax"),
    (entry("graphs: {dynmo: 1}"), 6, "unknown layer 'dynmo'; did you mean dynamo"),
    (entry("graphs:\n  xla: 1\n  xla: 1"), 8, "duplicate key 'xla', first on line 7"),
    (entry("graphs: {xla: -1}"), 6, r"graphs of xla is negative \(-1\)"),
    (entry("graphs: {xla: true}"), 6, "must be a whole number, not true or false"),
    (entry("graphs: {xla: 1.5}"), 6, "must be a whole number, not a number"),
    (entry("graphs: {xla: '1'}"), 6, "must be a whole number, not text"),
    (entry("graphs: {xla: }"), 6, "must be a whole number, not nothing"),
    (entry("graphs: {xla: 0x10}"), 6, "graphs of xla is '0x10', no count; write it in decimal"),
    (entry("graphs: {xla: 010}"), 6, "no count"),
    (entry("graphs: {xla: 1_000}"), 6, "no count"),
    (entry("graphs: {xla: 1:30}"), 6, "no count"),
    (entry("graphs: {xla: " + "9" * 5000 + "}"), 6, "no count"),
    (entry("recompiles: [1]"), 6, "recompiles must be a mapping of layers.* not a list"),
    (entry("note: [a]"), 6, "note must be text, not a list"),
    (entry("note:"), 6, "note must be text, not nothing"),
    (entry("note: 2024-01-01"), 6, 'note must be text, not a date.*quote it: "2024-01-01"'),
    (entry("ungated: true"), 6, "ungated must be text, not true or false"),
    (entry("ungated: ' '"), 6, "ungated is empty"),
    (entry("torch: 2"), 6, "torch must be text"),
    (entry("cases: {}"), 6, "cases is empty; delete the test"),
    (entry("cases: [a]"), 6, "cases must be a mapping of parameter ids"),
    (entry("cases:\n  a: {}\n  a: {}"), 8, "duplicate key 'a', first on line 7"),
    (entry("cases:\n  a: {}\ngraphs: {xla: 1}"), 8, "'test_a' has both cases and graphs"),
    (entry("cases:\n  a: {}\nprofile: b"), 8, "has both cases and profile"),
    (entry("cases:\n  a: {}\ncase: {}"), 8, "unknown key 'case'; did you mean cases"),
    (entry("cases:\n  a:\n    cases: {b: {}}"), 8, "the case 'a' has an unknown key 'cases'"),
    (entry("cases:\n  1: {}"), 7, "the key 1 is not text in YAML"),
    # places
    (entry("breaks: {where: a}"), 6, "breaks must be a list of places"),
    (entry("causes: {layer: xla}"), 6, "causes must be a list of causes, not a mapping"),
    (entry("causes:\n- cause: split"), 7, "an item of causes has no layer; add layer:"),
    (entry("causes:\n- layer: xla"), 7, "an item of causes has no cause; add cause:"),
    (entry("breaks:\n- a"), 7, "an item of breaks must be a mapping"),
    (entry("breaks:\n- code: x"), 7, "an item of breaks has no where"),
    (entry("breaks:\n- where: a\n  line: 3"), 8, "an item of breaks has an unknown key 'line'"),
    (entry("breaks:\n- where: a\n  layer: xla"), 8, "layer is 'xla'; allowed: dynamo, jax"),
    (
        entry("causes:\n- {layer: dynamo, cause: typo}"),
        7,
        "cause is 'typo'; allowed: entry, break, callee, bucket, recompile",
    ),
    (entry("breaks:\n- where: a\n  count: 0"), 8, "count is 0; leave it out, or 1 or more"),
    (entry("breaks:\n- where: 3"), 7, "where must be text"),
    (entry("breaks:\n- where: a\n  id: 12"), 8, "id must be text"),
    (entry("breaks:\n- where: a\n  reason: null"), 8, "reason must be text, not nothing"),
    (entry("eager:\n- where: a\n- where: b\n- where: a"), 9, "same place twice.* on line 7"),
    (
        entry("breaks:\n- where: a\n  code: x  =  1\n- where: a\n  code: x = 1"),
        9,
        "the same place twice in breaks",
    ),
    # overrides
    (entry("overrides: [a]"), 6, "overrides must be a mapping of profiles"),
    (entry("overrides:\n  tt: 3"), 7, "the override 'tt' must be a mapping"),
    (entry("overrides:\n  tt:\n    note: a"), 8, "the override 'tt' has an unknown key 'note'"),
    (entry("overrides:\n  tt:\n    graphs: {xla: -3}"), 8, "negative"),
    (entry("overrides:\n  '': {}"), 7, "overrides has a key without a name"),
    (entry("overrides:\n  tt: {}\n  tt: {}"), 8, "duplicate key 'tt'"),
]
