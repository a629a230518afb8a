"""Each rule by which expressions of nests are simplified while they are made, on what it is for: nothing changes."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.nest import expr as e
from zyx.nest import indices, pool
from zyx.nest.data import Nest, Store
from zyx.nest.run import run_nest
from zyx.ops import BinaryOp, UnaryOp
from zyx.semantics import apply_binary, apply_bitcast, apply_cast, apply_unary
from zyx.testing.compare import assert_same_bits
from zyx.testing.patterns import extreme_values, special_values
from zyx.testing.returns import Returns

INTS, FLOATS = "i8 i16 i32 i64 u8 u16 u32 u64", "f16 bf16 f32 f64"
#: For each method, what its results are for, in the order of its source: expressions of Python, those of data after
#: their dtypes. Indices are i < 24, j < 11 and o < 1; c is any number, d and f are divisors above 1. Of data, x, y and
#: the bool p are read, and c and d are literals; ``T`` is the dtype, and A any.
PATTERNS: dict[str, list[str]] = {
    "indices.Indices.ref": ["o + i"],
    "indices.Indices.affine": ["i - i + c; i * 0", "i * 1; i + j - j; i * 2 - i"],
    "indices.Indices.add": ["i + j"],
    "indices.Indices.scale": ["i * c"],
    "indices.Indices.shift": ["i + c", "i + 0; (i * d + j) + 0"],
    "indices.Indices.divide": [
        "i // 1",
        "i // 24; (j % d + d) // d",
        "(i * d + c) // d; (i * d + j - c) // d; (i * f * d + j) // d",
        "(i * d + j % d) // (d * f); (i * d - j % d + c) // (d * f)",
        "i // d // f; (i * 3 + j) // d // f",
        "i % (d * f) // d",
    ],
    "indices.Indices.modulo": [
        "i % 1",
        "i % 24; (j % d - d) % d",
        "(i * d + j) % d; (i * d - j + c) % d",
        "(i * d + j % d) % (d * f); (i * d - j % d + c) % (d * f)",
        "i % (d * f) % d; (i * 3 + j) % (d * f) % d",
    ],
    "indices.Indices.within": ["within(i, 24); within(i % d, d)"],
    "indices.Indices.non_negative": [
        "i >= 0; i + j * d >= 0",
        "i - 30 >= 0",
        "i * d - c >= 0; i * d - j * d * f + c >= 0",
        "i * -d - j % d + c >= 0; i * d * f + j % d - c >= 0",
    ],
    "indices.Indices._in_larger_units": ["i * -d - j % d + c >= 0; i * d * f + j % d - c >= 0"],
    "indices.Indices.is_zero": ["i + 1 == 0; i * -1 - d == 0", "i - i == 0"],
    "indices.Indices.less": ["i < c; i * d - j < c"],
    "pool.Pool.read": ["f32 i8 bool: read(i >= 24)"],
    "pool.Pool.unary": [f"{INTS} {FLOATS}: -c; abs(c) | {INTS} bool: ~c"],
    "pool.Pool.binary": [
        f"{INTS} {FLOATS}: c + d; c - d; c * d; c / d; c % d | {INTS}: c << d; c >> d; c & d; c ^ d"
        "| bool: c | d; c & d",
        f"{INTS} {FLOATS}: x * 1; 1 * x | i32: cast(i, T) < cast(j, T)",
    ],
    "pool.Pool._neutral": [
        f"{INTS} {FLOATS}: x * 1; 1 * x; x / 1",
        f"{INTS}: x * 0; 0 * x",
        f"{INTS}: x + 0; 0 + x | {FLOATS}: x + -0.0; -0.0 + x",
        f"{INTS} {FLOATS}: x - 0",
        f"{INTS}: x << 0; x >> 0",
        "bool: x & True; True & x",
        "bool: x & False; False & x",
        "bool: x | True; True | x",
        "bool: x | False; False | x",
    ],
    "pool.Pool._of_indices": [
        f"{INTS}: cast(i, T) <= cast(j, T); cast(i, T) <= c; c <= cast(i, T)",
        f"{INTS}: cast(i, T) < cast(j, T); cast(i * 2, T) < c; c < cast(i, T)",
        f"{INTS}: cast(i, T) == cast(j, T); cast(i, T) == c",
        f"{INTS}: cast(i, T) != cast(j, T); cast(i, T) != c",
        f"{INTS}: cast(i, T) + cast(j, T); cast(i, T) + c; cast(i, T) * c; c * cast(j, T)"
        "| i8 i16 i32 i64: cast(i, T) - cast(j, T); cast(i, T) - c; c - cast(i, T)",
    ],
    "pool.Pool.both": ["bool: both(True, x)", "bool: both(x, True); both(x, x)", "bool: both(x, y)"],
    "pool.Pool.select": [
        f"{INTS} {FLOATS} bool: where(True, x, y)",
        f"{INTS} {FLOATS} bool: where(False, x, y)",
        f"{INTS} {FLOATS} bool: where(p, x, x)",
    ],
    "pool.Pool.convert": [
        f"{INTS} {FLOATS} bool: cast(x, T)",
        f"{INTS}: cast(cast(i, T), A); cast(cast(j * 10, T), A); cast(cast(i, T), INDEX)",
        f"{INTS}: cast(c, INDEX)",
        f"{INTS} {FLOATS} bool: cast(c, A)",
    ],
    "pool.Pool.reinterpret": [f"{INTS} {FLOATS}: bits(x, T)"],
}  # fmt: skip
#: What looks like the left-hand side of a rule, and is not.
NEARLY = [
    "(i * d + j % (d + 1)) // (d * f); (i * d + j % (d + 1)) % (d * f); (i * d + j - c) % (d * f)",
    "i * -d - j % (d + 1) + c >= 0; i * d - c == 0; i % d // f; i // d % f; i % d % f",
    f"{FLOATS}: x + 0; 0 + x; x - -0.0; x * 0; 0 * x; x * -1; x / 0; 1 / x; 0 - x",
    "i8 u8 i16: cast(cast(i * 100, T), A); cast(i * 20, T) + cast(j * 20, T); cast(i * 20, T) < c",
    f"{INTS}: cast(i, T) - cast(j, T); cast(i, T) * x; 1 - x; 1 << x; cast(cast(x, A), T) | bool: x ^ True; x == True",
]
#: What make an expression or find the one there is, by no rule; and `with_children`, which asks the others.
NO_RULES = {"_intern", "index", "flatten", "number", "value_ref", "_literal_index", "_rebuild", "with_children"}
METHODS = {
    ast.Add: BinaryOp.ADD, ast.Sub: BinaryOp.SUB, ast.Mult: BinaryOp.MUL, ast.Div: BinaryOp.DIV, ast.Mod: BinaryOp.MOD,
    ast.BitAnd: BinaryOp.AND, ast.BitOr: BinaryOp.OR, ast.BitXor: BinaryOp.XOR, ast.LShift: BinaryOp.SHL,
    ast.RShift: BinaryOp.SHR, ast.Lt: BinaryOp.LT, ast.LtE: BinaryOp.LE, ast.Eq: BinaryOp.EQ, ast.NotEq: BinaryOp.NE,
}  # fmt: skip
SIZES = {"i": 24, "j": 11, "o": 1}


def is_rule(function):
    made = "None" if function.returns is None else ast.unparse(function.returns)
    return made in ("Expr", "Expr | None") and function.name not in NO_RULES and "self" in ast.unparse(function.args)


def is_result(expression):
    return not re.search(r"found|_table|_intern", ast.unparse(expression))


RULES = Returns([indices, pool], is_rule, is_result)


NAMED = [(method, number) for method, patterns in PATTERNS.items() for number in range(len(patterns))]


def test_each_rule_has_a_pattern():
    named = set(NAMED)
    there = {(result.function, result.number): result.text for result in RULES.results}
    assert {rule: text for rule, text in there.items() if rule not in named} == {}
    assert named - set(there) == set()


class Bench:
    """An expression, and what it means, of all points of i, j and o."""

    def __init__(self, dtype, rng):
        self.pool, self.dtype = pool.Pool(), dtype
        self.ranges = [self.pool.range(size) for size in SIZES.values()]
        grid = np.meshgrid(*(np.arange(size) for size in SIZES.values()), indexing="ij")
        refs = list(map(self.pool.ref, self.ranges))
        self.terms = {name: (ref, at.ravel()) for name, ref, at in zip(SIZES, refs, grid, strict=True)}
        self.count = grid[0].size
        self.at = self.pool.flatten(refs, list(SIZES.values()))
        self.params, self.buffers, self.drawn = [], [], {}
        if dtype is None:
            self.drawn = {"c": int(rng.integers(-40, 60)), "d": int(rng.integers(2, 9)), "f": int(rng.integers(2, 5))}
            return
        for name, of in {"x": dtype, "y": dtype, "p": dtypes.bool_}.items():
            self.params.append(e.Param(1 + len(self.params), of, self.count, mutable=False))
            self.buffers.append(extreme_values(of, self.count, rng))
            self.terms[name] = self.pool.read(self.params[-1], self.at), self.buffers[-1]
        self.drawn = {name: dtype.to_scalar(rng.choice(special_values(dtype))) for name in "cd"}
        self.types = {"T": dtype, "A": dtypes.ALL[rng.integers(len(dtypes.ALL))], "INDEX": e.INDEX}

    def literal(self, value, dtype):
        """Return a number as an expression."""
        if dtype is e.INDEX or dtype is None:
            return self.pool.index(value), np.full(self.count, value)
        return self.pool.literal(dtype.to_scalar(value), dtype), np.full(self.count, value, dtype.numpy)

    def make(self, node, dtype):
        """Return an expression and its values; a number is of `dtype`, None for indices."""
        match node:
            case ast.Constant(value=value):
                return self.literal(value, dtype)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
                return self.literal(-value, dtype)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if self.dtype is None:
                return self.literal(-self.drawn[name], None)
            case ast.Name(id="o"):  # made where it is watched
                return self.pool.ref(self.ranges[2]), self.terms["o"][1]
            case ast.Name(id=name):
                return self.terms[name] if name in self.terms else self.literal(self.drawn[name], dtype)
            case ast.UnaryOp(op=op, operand=operand):
                return self.unary(UnaryOp.NEG if isinstance(op, ast.USub) else UnaryOp.NOT, operand)
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                if dtype is None:
                    return self.of_indices(op, left, right)
                x, y = self.make(left, self.dtype), self.make(right, self.dtype)
                kind = METHODS[type(op)]
                return self.pool.binary(kind, x[0], y[0]), apply_binary(kind, x[1], y[1])
            case ast.Call(func=ast.Name(id=name), args=nodes):
                return self.call(name, nodes)
            case _:
                raise AssertionError(ast.unparse(node))

    def unary(self, kind, operand):
        x, values = self.make(operand, self.dtype)
        return self.pool.unary(kind, x), apply_unary(kind, values)

    def of_indices(self, op, left, right):
        """Return arithmetic on indices, by the methods of the pool that are for it."""
        p, (x, a), (y, b) = self.pool, self.make(left, None), self.make(right, None)
        number = y.value if isinstance(y, e.Literal) else None
        match op:
            case ast.Add():
                return (p.add(x, y) if number is None else p.shift(x, number)), a + b
            case ast.Sub():
                return p.affine([(x, 1), (y, -1)]), a - b
            case ast.Mult():
                factor, other = (x.value, y) if number is None else (number, x)
                return p.scale(other, factor), a * b
            case ast.FloorDiv():
                return p.divide(x, number), a // b
            case ast.Mod():
                return p.modulo(x, number), a % b
            case ast.GtE():
                return p.non_negative(p.affine([(x, 1), (y, -1)])), a >= b
            case ast.Eq():
                return p.is_zero(p.affine([(x, 1), (y, -1)])), a == b
            case ast.Lt():
                return p.less(x, number), a < b

    def call(self, name, nodes):
        p = self.pool
        match name:
            case "abs":
                return self.unary(UnaryOp.ABS, nodes[0])
            case "within":
                x, values = self.make(nodes[0], None)
                return p.within(x, self.make(nodes[1], None)[0].value), values
            case "read":
                (mask, holds), (_, values) = self.make(nodes[0], None), self.terms["x"]
                return p.read(self.params[0], self.at, mask), np.where(holds, values, 0).astype(values.dtype)
            case "both":
                (x, a), (y, b) = (self.make(node, dtypes.bool_) for node in nodes)
                return p.both(x, y) or p.true, a & b
            case "where":
                (condition, holds), (x, a), (y, b) = (
                    self.make(node, of) for node, of in zip(nodes, (dtypes.bool_, self.dtype, self.dtype), strict=True)
                )
                return p.select(condition, x, y), np.where(holds, a, b)
            case "cast" | "bits":
                target = self.types[ast.unparse(nodes[1])]
                is_index = {node.id for node in ast.walk(nodes[0]) if isinstance(node, ast.Name)} <= set(SIZES)
                x, values = self.make(nodes[0], None if is_index else self.dtype)
                if name == "bits":
                    return p.reinterpret(x, target), apply_bitcast(values, target)
                return p.convert(x, target), apply_cast(values, dtypes.int64 if target is e.INDEX else target)

    def run(self, expr):
        """Return what an expression gives at all points."""
        if expr.dtype is e.INDEX:
            expr = self.pool.convert(expr, dtypes.int64)
        out = e.Param(0, expr.dtype, self.count, mutable=True)
        found = np.zeros(self.count, expr.dtype.numpy)
        store = Store(out, self.at, expr, None, tuple(self.ranges))
        run_nest(Nest((out, *self.params), (store,), self.pool), [found, *self.buffers])
        return found


def cases(patterns):
    """Yield each pattern with the dtypes that it is drawn with, None for indices alone."""
    if ":" not in patterns:
        return [(text.strip(), None) for text in patterns.split(";")]
    parts = re.split(r"\|(?=[^|;]*:)", patterns)
    return [
        (text.strip(), dtypes.BY_SHORT[short])
        for names, _, texts in (part.partition(":") for part in parts)
        for short in names.split()
        for text in texts.split(";")
    ]


def check(bench, text, expr, meaning):
    """Assert that an expression is what its text means, at every point and within its bounds."""
    assert_same_bits(bench.run(expr), meaning, f"{text} with {bench.drawn}, which is {expr},")
    if expr.dtype is e.INDEX and bench.dtype is None:
        assert expr.low <= meaning.min()
        assert meaning.max() <= expr.high


@pytest.mark.parametrize("patterns", NEARLY)
def test_what_is_nearly_the_left_hand_side_of_a_rule_keeps_its_meaning(patterns):
    for seed, (text, dtype) in enumerate(cases(patterns)):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            bench = Bench(dtype, rng)
            with np.errstate(all="ignore"):
                check(bench, text, *bench.make(ast.parse(text, mode="eval").body, dtype))


@pytest.mark.parametrize(("method", "number"), NAMED, ids=str)
def test_a_rule_fires_on_its_pattern_and_keeps_every_bit(method, number):
    for seed, (text, dtype) in enumerate(cases(PATTERNS[method][number])):
        rng = np.random.default_rng(seed)
        fired, wanted = 0, 12 if re.search(r"\b[cdfA]\b", text) else 1
        root = ast.parse(text, mode="eval").body
        for _ in range(2000):
            bench = Bench(dtype, rng)
            with np.errstate(all="ignore"), RULES.watching() as returned:
                expr, meaning = bench.make(root, dtype)
            if not any((result.function, result.number) == (method, number) for result in returned):
                continue
            fired += 1
            check(bench, text, expr, meaning)
            if fired == wanted:
                break
        assert fired == wanted, f"of {text} for {dtype}, {fired} fired; the last one: {bench.drawn}: {expr}"
