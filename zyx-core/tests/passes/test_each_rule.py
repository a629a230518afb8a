"""Each rule on kernels that are exactly its left-hand side: it fires, and what it writes is the same, bit by bit."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from contextlib import nullcontext

import numpy as np
import pytest

import zyx.passes
from zyx import dtype as dtypes
from zyx.backend.info import STORAGE_ONLY, Capability, DeviceInfo, full_capability
from zyx.kernel.run import run
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp
from zyx.passes.decompose_float_mod import decompose_float_mod
from zyx.passes.decompose_integer_power import decompose_integer_power
from zyx.passes.decompose_small_floats import decompose_small_floats
from zyx.passes.decompose_transcendentals import decompose_transcendentals
from zyx.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from zyx.passes.fold_constants import fold_constants
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.passes.guard_integer_division import guard_integer_division
from zyx.passes.narrow_indices import narrow_indices
from zyx.passes.rules import Rules
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.passes.split_multiply_add import split_multiply_add
from zyx.testing.compare import assert_same_bits, ulps_apart
from zyx.testing.fused import rounding_once
from zyx.testing.patterns import Unsuitable, draw, extreme_values
from zyx.testing.returns import Returns

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
GROUPS = {
    "signed": SIGNED, "unsigned": UNSIGNED, "ints": SIGNED + UNSIGNED, "floats": FLOATS,
    "numbers": SIGNED + UNSIGNED + FLOATS, "all": (*SIGNED, *UNSIGNED, *FLOATS, "bool"),
}  # fmt: skip
#: What is another one each time, and how many draws of each pattern and dtype have to fire then, else one.
DRAWN_ANEW = {r"\b[cdAB]\b": 4, r"\b(unary|binary|compare|function)\b": 40}
#: For each function, what its results are written for, in the order of its source: a pattern of `zyx.testing.patterns`,
#: or several with ``;`` between, after the dtypes (and ``x4``, lanes other than 1 and 4) that it is drawn with.
PATTERNS: dict[str, list[str]] = {
    "algebra.booleans.simplify_not": [
        "bool: ~~x",
        "ints bool: ~(x < y); ~(x <= y) | all: ~(x == y); ~(x != y)",
    ],
    "algebra.booleans.simplify_binary": [
        "bool: x & True; x & x; min(x, True); min(x, x)",
        "bool: x | False; x | x; max(x, False); max(x, x)",
        "bool: x ^ x; x != x; x == x",
        "bool: x ^ False; x != False; x == True",
        "bool: x ^ True; x != True; x == False",
    ],
    "algebra.booleans.simplify_where": [
        "all: where(p, x, x)",
        "all: where(True, x, y)",
        "all: where(False, x, y)",
        "all: where(~p, x, y)",
        "bool: where(p, True, False)",
        "bool: where(p, False, True)",
        "floats: where(p, c, c)",
    ],
    "algebra.casts.simplify_cast": [
        "all: cast(x, T)",
        "bool u8 u16 u32 i8 i16 i32 f16 bf16 f32: cast(cast(x, A), B) | ints: cast(cast(x & 31, A), B)",
        "ints: cast(cast(x, A), B)",
    ],
    "algebra.casts.simplify_bitcast": ["numbers: bitcast(x, T)", "numbers: bitcast(bitcast(x, A), B)"],
    "algebra.comparisons.simplify_comparison": ["ints: i < i + 3; i + t <= i + 3; i + 3 == i"],
    "algebra.comparisons._equality": [
        "ints: -x == -y; -x != -y",
        "ints: min(max(x, 0), 26) == 0",
        "ints: x + c == d; x + c != d",
        "ints: c - x == d; -x != c",
        "ints: x - y == 0; x - y != 0; x ^ y == 0; x ^ y != 0",
    ],
    "algebra.comparisons._end": [
        "ints: min(max(x, 0), 26) == 0; max(min(x, 26), 0) == 0; max(min(x, 26), 0) != 26",
        "ints: min(max(x, 0), 26) == 26; max(min(x, 26), 0) == 26; max(min(x, 26), 0) != 0",
    ],
    "algebra.comparisons._order": [
        "signed: i - t < 0; i - t <= 0; 0 < i - t; 0 <= i - t",
        "ints: (x & 31) + c < d; (x & 31) + c <= d; d < c - (x & 31); d <= c - (x & 31)",
        "ints: d < (x & 31) + c; d <= (x & 31) + c; c - (x & 31) < d; c - (x & 31) <= d",
    ],
    "algebra.floats.simplify_unary": [
        "floats: -(-x)",
        "floats: abs(abs(x)); abs(exp(x)); abs(exp2(x))",
        "floats: abs(-x)",
        "floats: floor(floor(x)); floor(trunc(x)); trunc(floor(x)); trunc(trunc(x))",
        "floats: floor(cast(i, T)); trunc(cast(p, T))",
    ],
    "algebra.floats.simplify_binary": [
        "floats: x + nan; nan - x; x * nan; nan / x",
        "floats: x + -0.0",
        "floats: x + -y; -x + y",
        "floats: x - 0.0",
        "floats: x - -y",
        "floats: x * 1",
        "floats: x * -1",
        "floats: -x * -y",
        "floats: x / 1",
        "floats: x / -1",
        "floats: x / c",
        "floats: max(x, x); min(x, x); max(x, -inf); min(x, inf)",
        "floats: x ** 0; x ** -0.0",
        "floats: x ** 1",
    ],
    "algebra.integers.simplify_unary": [
        "ints: -(-x)",
        "ints: -(x - y)",
        "ints: ~~x",
        "ints: abs(x & 7); abs(i) | unsigned: abs(x)",
        "signed: abs(min(x, 0)); abs(-(x & 7))",
    ],
    "algebra.integers._add": [
        "ints: x + 0",
        "ints: (x + c) + d",
        "ints: x + -y; -x + y",
        "ints: (x - y) + y; y + (x - y)",
        "ints: (x + c) + y; y + (x + c)",
    ],
    "algebra.integers._subtract": [
        "ints: x - c",
        "ints: x - x",
        "ints: 0 - x",
        "ints: x - -y",
        "ints: (x + y) - y",
        "ints: (x + y) - x",
    ],
    "algebra.integers._multiply": ["ints: x * 1", "ints: x * -1", "ints: x * c * d"],
    "algebra.integers._divide": [
        "ints: x / 1",
        "signed: x / -1",
        "ints: x / c / d",
        "ints: (x & 31) / c | unsigned: x / c",
    ],
    "algebra.integers._remainder": [
        "ints: (x & 7) % ((y & 7) + 9)",
        "ints: (x & 7) % c | signed: (i - 3) % c",
        "ints: x % c % d if d > 1 and c > d and c % d == 0",
        "ints: (x & 31) % c",
    ],
    "algebra.integers._extreme": [
        "ints: max(x, x); min(x, x)",
        "ints: max(x, low); min(x, high); max(i, 0); max((x & 7) + 9, y & 7)",
        "ints: max(i, (x & 7) + 9); min((x & 7) + 9, y & 7)",
        "ints: max(max(x, c), d); min(min(x, c), d)",
    ],
    "algebra.integers._and": [
        "ints: x & x",
        "ints: x & -1; i & 7; x & 7 & 15",
        "ints: x & c & d",
    ],
    "algebra.integers._or": ["ints: x | x; x | 0", "signed: x | -1", "ints: x | c | d"],
    "algebra.integers._xor": ["ints: x ^ x", "ints: x ^ 0", "ints: x ^ -1", "ints: x ^ c ^ d"],
    "algebra.integers._shift": [
        "ints: x << 0; x >> 0",
        "signed: x >> c",
        "ints: x << c",
        "ints: x << c << d; x >> c >> d",
    ],
    "algebra.integers._power": ["ints: x ** 0; 1 ** x", "ints: x ** 1", "ints: x ** 2"],
    "algebra.vectors.simplify_vectorize": ["x4 all: [x[0], x[1], x[2], x[3]]"],
    "algebra.vectors.simplify_devectorize": [
        "x1 all: [x, y][1]",
        "x4 all: c[1]",
        "x4 all: shuffle(x, y, 6, 3)[0]; shuffle(x, y, 6, 3)[1]",
        "x1 all: x[0]",
    ],
    "algebra.vectors.simplify_shuffle": ["x4 all: shuffle(x, y, 0, 1, 2, 3)", "x4 all: shuffle(x, y, 4, 5, 6, 7)"],
    "simplify_algebra._known_value": [
        "ints: x * 0; x & 0; x % 1; i / 8; i < 8 | signed: x % -1 | bool: x & False; x | True"
    ],
    "simplify_algebra._index": ["ints: j"],
    "simplify_algebra._unary": ["signed: -c; abs(c); ~c | bool: ~c"],
    "simplify_algebra._binary": [
        "ints: x * 0; i / 8; i < 8; c + d; x & 0 | bool: x & False",
        "numbers: c + x; y * x; c == x | ints bool: y ^ x",
    ],
    "simplify_algebra._where": ["ints bool: where(p, c, c)"],
    "simplify_algebra._mad": [
        "numbers: mad(y, x, z); mad(c, x, y)",
        "ints: mad(x, 0, c)",
        "numbers: mad(x, 1, y)",
        "ints: mad(x, 0, y)",
        "ints: mad(x, y, 0)",
    ],
    "simplify_algebra._cast": ["ints bool: cast(c, A)"],
    "simplify_algebra._load": ["x1 all: load(i < 8)", "x1 all: load(8 < i)"],
    "simplify_algebra._store": ["x1 all: store(x, i < 8)", "x1 all: store(x, 8 < i)"],
    "simplify_algebra._atomic": ["x1 ints f32: atomic(x, i < 8)", "x1 ints f32: atomic(x, 8 < i)"],
    "fold_constants._evaluate": [
        "x1 all: unary(c)",
        "x1 all: binary(c, d); compare(c, d)",
        "x1 all: where(True, c, d); where(False, c, d)",
        "x1 all: cast(c, A)",
        "x1 numbers: bitcast(c, A)",
        "x1 numbers: mad(c, d, 3)",
        "x1 all: [c, c]",
        "x1 all: [c, d][1]",
        "x1 all: shuffle([c, d], [d, c], 0, 3)",
    ],
    "fold_constants._write": ["x1 all: binary(c, d); [c, c]", "x1 all: shuffle([c, d], [c, d], 3, 0)"],
    "decompose_float_mod.FloatRemainders.write": ["f32 f64: x % y; x % c"],
    "decompose_float_mod.FloatRemainders._step_by_step": ["x4 f32 f64: x % y", "f32 f64: x % y; x % c"],
    "decompose_integer_power._power": [
        "ints: 2 ** x",
        "ints: x ** (y & 7); x ** 5 | unsigned: x ** y",
        "signed: x ** y; x ** c",
    ],
    "decompose_small_floats.SmallFloats.write": [
        "f16 bf16: unary(x)",
        "f16 bf16: binary(x, y); compare(x, y)",
        "f16 bf16: mad(x, 1, y); mad(x, -1, y)",  # of other products, the sum takes more digits than the small type has
        "f16 bf16: cast(x, A)",
        "ints f64 bool: cast(x, f16); cast(x, bf16)",
    ],
    "decompose_transcendentals.Functions.write": ["floats: function(x); x ** y; x ** c"],
    "eliminate_common_subexpressions.eliminate_common_subexpressions.rule": [
        "all: c == c; load(p) == load(p); (x == y) == (x == y); where(p, x, y) == where(p, x, y)"
        "| all: cast(x, A) == cast(x, A) | numbers: -x == -x; x + y == y + x; mad(x, y, z) == mad(y, x, z)"
        "| numbers: bitcast(x, A) == bitcast(x, A) | x1 all: [x, y] == [x, y]"
        "| x4 all: x[1] == x[1]; shuffle(x, y, 1, 5) == shuffle(x, y, 1, 5)",
    ],
    "fuse_multiply_add.fuse_multiply_add.rule": [
        "floats: x * y + z; z + x * y",
        "floats: x * y - z",
        "floats: z - x * y",
    ],
    "guard_integer_division._guarded": ["ints: x / y; x % y; x / 0; x % 0 | signed: x / -1; x % -1"],
    "narrow_indices._Plan._is_narrowed": [
        "i64: i + t * 8; i < t; ((x & 2147483647) + (y & 2147483647)) * (i + t); (x & 31) << t; cast(i * 8 + t, f32)",
        "i64: i; c",
        "i64: l + i",
        "i64: -i; mad(i, t, i); where(p, i, t) | x1 i64: [i, t]; [i, t][1] | x4 i64: shuffle(i, t, 1, 5)",
        "x1 i8 u16 i32 bool: load(cast(x, i64) == 3)",
    ],
    "split_multiply_add.SplitMultiplyAdds.write": ["numbers: mad(x, y, z)"],
}
#: For each pass, what it has to leave as it is.
REFUSED = {
    "simplify_algebra": "floats: x + 0.0; x - -0.0; x - x; x * 0.0; x * 0.5; x / x; 0.0 / x; x / 3; (x + 2.0) + 2.0"
    "| floats: max(x, nan); min(x, -inf); mad(x, y, 0.0); mad(x, 0.0, y); ~(x < y); ~(x <= y); x == x; x <= x; x ** 2"
    "| f32: x / 1.401298464324817e-45; cast(cast(x, f16), f32); cast(cast(x, i32), f32) | f64: x / 5e-324"
    "| signed: x / 4; x % 4; abs(abs(x)); x - y < 0; 0 <= y - x; x + 5 < 5 | ints: x % 12 % 5"
    "| i32: cast(cast(x, i16), i32); cast(cast(x, f32), i32) | i32 u32: x << 3 >> 3; max(min(x, 9), 3); (i + t) % 3"
    "| signed: min(x, 3) & 7; abs(x); min(x, 3) % 4; min(x, 3) / 4; min(x, 3) >> 1"
    "| ints: max(i, 3); min(i, 3); (x & 15) % 9; i & 5"
    "| all: where(p, x, y) | x4 all: shuffle(x, y, 0, 1, 2, 7); [x[1], x[0], x[2], x[3]]",
    "fold_constants": "x1 floats: function(c); c ** d | all: compare(x, c); where(p, c, c)",
    "decompose_float_mod": "ints f16 bf16: x % y",
    "decompose_integer_power": "floats: x ** y",
    "decompose_small_floats": "f16 bf16: bitcast(x, u16); where(p, x, y) | x4 f16: x[1] | f32 f64 i32: binary(x, y)",
    "decompose_transcendentals": "floats: unary(x); binary(x, y); mad(x, y, x)",
    "eliminate_common_subexpressions": "numbers: x - y == y - x; mad(x, y, z) == mad(x, z, y)"
    "| all: where(p, x, y) == where(p, y, x); load(p) == load(q)"
    "| x4 all: x[1] == x[2]; shuffle(x, y, 1, 5) == shuffle(y, x, 1, 5)"
    "| i32: cast(cast(x, i8), T) == cast(cast(x, i16), T); bitcast(cast(x, u32), T) == x; -x == ~x",
    "fuse_multiply_add": "ints: x * y + z; x * y - z | floats: (x + y) * z",
    "guard_integer_division": "floats: x / y; x % y | ints: x / 3; x % 3; x / (i + 1) | signed: x / -2; i / -1; i % -1",
}  # fmt: skip

#: Devices that lack what is decomposed, with multiply-adds that round once, and without; and one that lacks nothing.
_WITHOUT = {
    dtype: Capability(had.unary, had.binary - {BinaryOp.MOD})
    for dtype, had in ((dtype, full_capability(dtype, transcendental=False)) for dtype in dtypes.ALL)
} | dict.fromkeys((dtypes.float16, dtypes.bfloat16), STORAGE_ONLY)  # fmt: skip
DEVICES = [
    DeviceInfo("quick", "1", _WITHOUT),
    DeviceInfo("rounds twice", "1", _WITHOUT, has_fma=False),
    DeviceInfo("full", "1", {dtype: full_capability(dtype) for dtype in dtypes.ALL}),
]


def for_devices(pass_):
    return [functools.partial(pass_, info=info) for info in DEVICES]


#: What applies the rules of a module.
PASSES = {
    "algebra": [simplify_algebra],
    "simplify_algebra": [simplify_algebra],
    "fold_constants": [fold_constants],
    "decompose_float_mod": for_devices(decompose_float_mod),
    "decompose_integer_power": [decompose_integer_power],
    "decompose_small_floats": for_devices(decompose_small_floats),
    "decompose_transcendentals": for_devices(decompose_transcendentals),
    "eliminate_common_subexpressions": [eliminate_common_subexpressions],
    "fuse_multiply_add": [fuse_multiply_add],
    "guard_integer_division": [guard_integer_division],
    "narrow_indices": [narrow_indices],
    "split_multiply_add": [split_multiply_add],
}
#: How far off functions may be, in units in the last place; what each of them keeps is in `math`.
FUNCTION_ULPS = 8
#: Draws that it takes at most until enough have fired.
DRAWN = 2000


def has_rules(module):
    """Whether a module has rules: a class of them, or functions that those of `Identities` call, or a pass by rules."""
    name = module.__name__.removeprefix("zyx.passes.")
    if name == "algebra.simplifier":  # what they are written with
        return False
    own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
    return name.partition(".")[0] in PASSES or any(
        isinstance(value, type) and issubclass(value, Rules) for value in own
    )


def is_rule(function):
    """Whether a function returns what stands in the place of an operation, or whether one is narrowed."""
    made = "None" if function.returns is None else ast.unparse(function.returns)
    named = [argument.arg for argument in function.args.args]
    return ("op" in named and made in ("ValueId", "ValueId | None", "Array | None")) or function.name == "_is_narrowed"


def is_result(expression):
    """Whether an expression is what a rule makes of an operation, not another rule's of the same."""
    arguments = expression.args if isinstance(expression, ast.Call) else []
    passes_on = any(isinstance(argument, ast.Name) and argument.id == "op" for argument in arguments)
    return not passes_on and not isinstance(expression, ast.Constant)


@functools.cache
def rules():
    modules = [importlib.import_module(each.name) for each in pkgutil.walk_packages(zyx.passes.__path__, "zyx.passes.")]
    return Returns(
        [module for module in modules if has_rules(module) and module is not zyx.passes.rules], is_rule, is_result
    )


def test_each_rule_has_a_pattern():
    named = {(function, number) for function, patterns in PATTERNS.items() for number in range(len(patterns))}
    there = {(result.function, result.number): result.text for result in rules().results}
    assert {rule: text for rule, text in there.items() if rule not in named} == {}
    assert named - set(there) == set()


def cases(patterns):
    """Yield each pattern with a dtype and a number of lanes that it is drawn with."""
    for group in patterns.split("|") if ":" not in patterns else _groups(patterns):
        names, _, texts = group.partition(":")
        words = names.split()
        lanes = [int(word[1:]) for word in words if word[0] == "x"] or [1, 4]
        for short in dict.fromkeys(short for word in words if word[0] != "x" for short in GROUPS.get(word, (word,))):
            for text in texts.split(";"):
                for count in lanes:
                    yield text.strip(), dtypes.BY_SHORT[short], count


def _groups(patterns):
    """Yield the parts of patterns that begin with dtypes: ``|`` is also an operator."""
    part = ""
    for piece in patterns.split("|"):
        if ":" in piece and part:
            yield part
            part = piece
        else:
            part = f"{part}|{piece}" if part else piece
    yield part


def results(kernel, arguments):
    out = np.zeros(kernel.params[-1].length, kernel.params[-1].dtype.numpy)
    run(kernel, [*arguments, out])
    return out


RULES = [(function, number) for function, patterns in PATTERNS.items() for number in range(len(patterns))]


@pytest.mark.parametrize(("function", "number"), RULES, ids=str)
def test_a_rule_fires_on_its_pattern_and_keeps_every_bit(function, number):
    name = function.partition(".")[0]
    passes = PASSES[name]
    for seed, (text, dtype, lanes) in enumerate(cases(PATTERNS[function][number])):
        rng = np.random.default_rng(seed)
        fired, wanted = 0, max((count for part, count in DRAWN_ANEW.items() if re.search(part, text)), default=1)
        for _ in range(DRAWN):
            try:
                kernel = draw(text, dtype, rng, lanes)
            except Unsuitable:
                continue
            pass_ = passes[rng.integers(len(passes))]
            with rules().watching() as returned:
                changed = pass_(kernel)
            if not any((result.function, result.number) == (function, number) for result in returned):
                continue
            fired += 1
            assert changed != kernel
            verify(changed)
            once = rounding_once() if getattr(pass_, "keywords", {}).get("info", DEVICES[1]).has_fma else nullcontext()
            arguments = [extreme_values(param.dtype, param.length, rng) for param in kernel.params[:-1]]
            expected = results(kernel, arguments)
            with once:
                found = results(changed, arguments)
            what = f"{text}\n{kernel}\n{changed}\nthe result"
            if name == "decompose_transcendentals":
                assert (ulps_apart(found, expected) < FUNCTION_ULPS).all(), what
            else:
                assert_same_bits(found, expected, what)
            if fired == wanted:
                break
        assert fired == wanted, f"of {text} for {dtype}x{lanes}, {fired} fired; the last one:\n{kernel}"


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rule_is_for_stays(name):
    for seed, (text, dtype, lanes) in enumerate(cases(REFUSED[name])):
        for pass_ in PASSES[name]:
            kernel = draw(text, dtype, np.random.default_rng(seed), lanes)
            assert pass_(kernel) is kernel, f"{text}\n{kernel}\n{pass_(kernel)}"
