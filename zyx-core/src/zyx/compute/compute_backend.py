"""The flat, BLAS-like interface: memory by handles, and calls that compute in it. See docs/reference/compute.md.

    with ComputeBackend("c") as backend:
        a, b, c = (backend.alloc(n * n * 4) for _ in range(3))
        backend.copy_htod(a, left)
        backend.copy_htod(b, right)
        backend.gemm("n", "n", n, n, n, 1.0, a, n, b, n, 0.0, c, n)
        backend.copy_dtoh(result, c)

Matrices are row-major, their elements float32 unless `dtype` says otherwise. Calls return before the work is done:
`copy_dtoh` waits for what it reads, `synchronize` for everything, and what went wrong meanwhile is raised there. Where
there is nothing to compute nothing is launched: handles of arrays without elements are not looked at, and those of a
call whose result has none neither. A call that raises has changed nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.compute import formulas
from zyx.compute.layout import ArrayLayout, dense
from zyx.compute.names import BinaryOp, ReduceOp, Transpose, UnaryOp
from zyx.compute.session import Session
from zyx.dtype import float32
from zyx.functions.conv import conv2d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.compute.arguments import CheckedCall
    from zyx.compute.memory import HandleMemory
    from zyx.compute.names import Place
    from zyx.dtype import DType, DTypeLike

    #: One of an enumeration, or its value.
    TransposeLike = Transpose | str
    UnaryLike = UnaryOp | str
    BinaryLike = BinaryOp | str
    ReduceLike = ReduceOp | str
    Scalar = int | float | complex


class _Product:
    """What a product is told of its matrices, looked at."""

    __slots__ = ("k", "lda", "ldb", "ldc", "m", "n", "trans_a", "trans_b")

    def __init__(
        self,
        call: CheckedCall,
        trans_a: object,
        trans_b: object,
        m: object,
        n: object,
        k: object,
        lda: object,
        ldb: object,
        ldc: object,
    ) -> None:
        self.trans_a = call.member("trans_a", trans_a, Transpose)
        self.trans_b = call.member("trans_b", trans_b, Transpose)
        self.m, self.n, self.k = call.size("m", m), call.size("n", n), call.size("k", k)
        self.lda = call.leading("lda", lda, self.k if self.trans_a is Transpose.NO_TRANS else self.m)
        self.ldb = call.leading("ldb", ldb, self.n if self.trans_b is Transpose.NO_TRANS else self.k)
        self.ldc = call.leading("ldc", ldc, self.n)

    def a(self) -> ArrayLayout:
        """Return where the elements of A are, as it is stored."""
        sizes = (self.m, self.k) if self.trans_a is Transpose.NO_TRANS else (self.k, self.m)
        return ArrayLayout(0, sizes, (self.lda, 1))

    def b(self) -> ArrayLayout:
        """Return where the elements of B are, likewise."""
        sizes = (self.k, self.n) if self.trans_b is Transpose.NO_TRANS else (self.n, self.k)
        return ArrayLayout(0, sizes, (self.ldb, 1))

    def c(self) -> ArrayLayout:
        """Return where the elements of C are."""
        return ArrayLayout(0, (self.m, self.n), (self.ldc, 1))


class ComputeBackend(Session):
    """Memory and operations on one device, whatever backend brings it.

    Every call may raise, besides what it says itself: `NotInitializedError` before `init`, `InvalidArgumentError` for
    an argument that is wrong, `DTypeError` and `UnsupportedError` for a dtype that there is not, or not on this device,
    `AllocationError` where there is no room, and other `BackendError` where the device refuses.

    Args:
        device: As in `zyx.device`, but not a group; the default device for None. It is opened by `init`.

    Raises:
        NoDeviceError: When it is opened: there is no such device.

    >>> with zyx.compute.ComputeBackend("interpreter") as backend:
    ...     memory, read = backend.alloc(8), bytearray(8)
    ...     backend.copy_htod(memory, b"12345678")
    ...     backend.copy_dtoh(read, memory)
    >>> bytes(read)
    b'12345678'
    """

    def __init__(self, device: str | None = None) -> None:
        super().__init__(device)

    # ---- products

    def gemm(
        self,
        trans_a: TransposeLike,
        trans_b: TransposeLike,
        m: int,
        n: int,
        k: int,
        alpha: Scalar,
        a: Place,
        lda: int,
        b: Place,
        ldb: int,
        beta: Scalar,
        c: Place,
        ldc: int,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        """Let C be ``alpha * op(A) @ op(B) + beta * C``, as BLAS's routine of this name does on row-major matrices.

        Sums of float16 and bfloat16, with `alpha` and `beta`, are float32's and rounded once.

        Args:
            trans_a: What op(A) is.
            trans_b: What op(B) is.
            m: Rows of op(A) and C.
            n: Columns of op(B) and C.
            k: Columns of op(A), rows of op(B). Of none, the product is 0.
            alpha: Where it is 0, A and B are not read: what is NaN there does not matter.
            a: A, stored as ``m`` rows of ``k``, or ``k`` of ``m`` if it is transposed.
            lda: Elements from one row of A, as stored, to the next; at least as many as a row has. Those between are
                not read. The last row need not be followed by any.
            b: B, stored as ``k`` rows of ``n``, or ``n`` of ``k``.
            ldb: As `lda`.
            beta: Where it is 0, C is not read.
            c: C, ``m`` rows of ``n``. It must not overlap with A or B.
            ldc: As `lda`; what lies between rows stays as it is.
            dtype: Of all elements: floats, integers (whose sums wrap) or complex numbers.
        """
        with self._call("gemm") as (call, memory):
            kind = self._dtype(call, dtype)
            shape = _Product(call, trans_a, trans_b, m, n, k, lda, ldb, ldc)
            places = [("a", a, shape.a()), ("b", b, shape.b()), ("c", c, shape.c())]
            self._multiply(call, memory, kind, shape, alpha, beta, [places])

    def batched_gemm(
        self,
        trans_a: TransposeLike,
        trans_b: TransposeLike,
        m: int,
        n: int,
        k: int,
        alpha: Scalar,
        a: Place,
        lda: int,
        b: Place,
        ldb: int,
        beta: Scalar,
        c: Place,
        ldc: int,
        stride_a: int,
        stride_b: int,
        stride_c: int,
        batch_count: int,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        """Do what `gemm` does with matrices at equal distances in memory, all at once.

        Args:
            trans_a: As in `gemm`; so are all up to `ldc`.
            trans_b: As `trans_a`.
            m: As in `gemm`.
            n: As in `gemm`.
            k: As in `gemm`.
            alpha: As in `gemm`.
            a: The first A.
            lda: As in `gemm`.
            b: The first B.
            ldb: As in `gemm`.
            beta: As in `gemm`.
            c: The first C.
            ldc: As in `gemm`.
            stride_a: Elements from one A to the next; 0 if there is one A for all.
            stride_b: Elements from one B to the next; 0 if there is one B for all.
            stride_c: Elements from one C to the next, which must not overlap.
            batch_count: Number of products.
            dtype: As in `gemm`.
        """
        with self._call("batched_gemm") as (call, memory):
            kind = self._dtype(call, dtype)
            shape = _Product(call, trans_a, trans_b, m, n, k, lda, ldb, ldc)
            count = call.size("batch_count", batch_count)
            steps = [
                call.size(name, given)
                for name, given in (("stride_a", stride_a), ("stride_b", stride_b), ("stride_c", stride_c))
            ]
            layouts = [
                ArrayLayout(0, (count, *each.sizes), (step, *each.strides))
                for each, step in zip((shape.a(), shape.b(), shape.c()), steps, strict=True)
            ]
            if layouts[2].count and not layouts[2].is_distinct:
                call.refuse("stride_c", stride_c, f"products apart from each other, {shape.c().reach} or more elements")
            places = list(zip(("a", "b", "c"), (a, b, c), layouts, strict=True))
            self._multiply(call, memory, kind, shape, alpha, beta, [places])

    def batched_gemm_by_handles(
        self,
        trans_a: TransposeLike,
        trans_b: TransposeLike,
        m: int,
        n: int,
        k: int,
        alpha: Scalar,
        a: Sequence[Place],
        lda: int,
        b: Sequence[Place],
        ldb: int,
        beta: Scalar,
        c: Sequence[Place],
        ldc: int,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        """Do what `gemm` does with several matrices of one shape, each with a place of its own, together.

        Args:
            trans_a: As in `gemm`; so is all that is not said here.
            trans_b: As `trans_a`.
            m: As in `gemm`.
            n: As in `gemm`.
            k: As in `gemm`.
            alpha: As in `gemm`.
            a: The matrices A. One may be there several times.
            lda: As in `gemm`.
            b: The matrices B, as many.
            ldb: As in `gemm`.
            beta: As in `gemm`.
            c: The matrices C, as many, which overlap neither with each other nor with any A or B.
            ldc: As in `gemm`.
            dtype: As in `gemm`.
        """
        with self._call("batched_gemm_by_handles") as (call, memory):
            kind = self._dtype(call, dtype)
            shape = _Product(call, trans_a, trans_b, m, n, k, lda, ldb, ldc)
            for name, given in (("a", a), ("b", b), ("c", c)):
                if not isinstance(given, list | tuple) or hasattr(given, "offset"):
                    call.refuse(name, given, "a list of handles")
                if len(given) != len(c):
                    call.refuse(f"the length of {name}", len(given), f"{len(c)}, that of c")
            each = [
                [(f"a[{i}]", x, shape.a()), (f"b[{i}]", y, shape.b()), (f"c[{i}]", z, shape.c())]
                for i, (x, y, z) in enumerate(zip(a, b, c, strict=True))
            ]
            self._multiply(call, memory, kind, shape, alpha, beta, each)

    def _multiply(
        self,
        call: CheckedCall,
        memory: HandleMemory,
        dtype: DType,
        shape: _Product,
        alpha: Scalar,
        beta: Scalar,
        each: list[list[tuple[str, Place, ArrayLayout]]],
    ) -> None:
        """Multiply the matrices of each list of A, B and C."""
        alpha, beta = call.scalar("alpha", alpha, dtype), call.scalar("beta", beta, dtype)
        operands = [self._operands(call, dtype, places) for places in each]
        for i, (*_, target) in enumerate(operands):
            for j, others in enumerate(operands):
                for other in others if j != i else ():
                    if target.overlaps(other):
                        call.refuse(
                            target.argument, each[i][2][1], f"memory that does not overlap with {other.argument}"
                        )
        if beta == 1 and (alpha == 0 or shape.k == 0):
            return  # C as it is
        results = []
        for x, y, target in operands:
            if target.block is None:
                continue
            old = memory.read(target) if beta != 0 else None
            if alpha == 0 or shape.k == 0:
                value = memory.zeros(target) if old is None else formulas.scaled(old, beta).astype(dtype)
            else:
                left = formulas.turned(memory.read(x), shape.trans_a)
                right = formulas.turned(memory.read(y), shape.trans_b)
                value = formulas.product(left, right, alpha, beta, old)
            results.append((target, value))
        memory.write(results)

    # ---- convolution and attention

    def conv2d_forward(
        self,
        input: Place,
        input_shape: Sequence[int],
        filter: Place,
        filter_shape: Sequence[int],
        output: Place,
        output_shape: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        """Cross-correlate images with filters, as `zyx.conv2d` does.

        Args:
            input: The images.
            input_shape: ``(N, C, H, W)``. Without channels the result is 0.
            filter: The filters.
            filter_shape: ``(K, C, KH, KW)``.
            output: Where the result goes; it must not overlap with the others.
            output_shape: ``(N, K, OH, OW)`` with ``OH = (H + 2 * padding[0] - KH) // stride[0] + 1``, and OW likewise.
            stride: Rows and columns between windows, each >= 1.
            padding: Rows and columns of zeros on both sides.
            dtype: Of all elements; float16 and bfloat16 are summed in float32.
        """
        with self._call("conv2d_forward") as (call, memory):
            kind = self._dtype(call, dtype)
            images = call.shape("input_shape", input_shape, 4)
            filters = call.shape("filter_shape", filter_shape, 4)
            result = call.shape("output_shape", output_shape, 4)
            steps, around = call.shape("stride", stride, 2, 1), call.shape("padding", padding, 2)
            if filters[1] != images[1]:
                call.refuse("filter_shape", filters, f"{images[1]} channels, as the input has")
            room = [size + 2 * pad - window for size, pad, window in zip(images[2:], around, filters[2:], strict=True)]
            if min(room) < 0 or 0 in filters[2:]:
                call.refuse("filter_shape", filters, "windows of 1 or more, no larger than the padded input")
            wanted = (images[0], filters[0], *(size // step + 1 for size, step in zip(room, steps, strict=True)))
            if result != wanted:
                call.refuse("output_shape", result, f"{wanted}")
            places = [("input", input, images), ("filter", filter, filters), ("output", output, result)]
            x, w, target = self._operands(call, kind, [(name, at, dense(0, *sizes)) for name, at, sizes in places])
            if target.block is None:
                return
            has_sums = x.block is not None and w.block is not None
            value = conv2d(memory.read(x), memory.read(w), None, steps, around) if has_sums else memory.zeros(target)
            memory.write([(target, value)])

    def attention(
        self,
        q: Place,
        k: Place,
        v: Place,
        o: Place,
        batch: int,
        heads: int,
        seq_q: int,
        seq_kv: int,
        head_dim: int,
        scale: float | None = None,
        causal: bool = False,
        *,
        causal_offset: int | None = None,
        dtype: DTypeLike = float32,
    ) -> None:
        """Let O be ``softmax(scale * Q @ K.mT) @ V`` for each head. Vaswani et al., "Attention is all you need", 2017.

        Args:
            q: Q, ``(batch, heads, seq_q, head_dim)``.
            k: K, ``(batch, heads, seq_kv, head_dim)``.
            v: V, as K.
            o: O, as Q; it must not overlap with the others.
            batch: Number of sequences.
            heads: Of each.
            seq_q: Queries.
            seq_kv: Keys. A query that sees none gives 0.
            head_dim: Elements of each.
            scale: What scores are multiplied by: finite, > 0; None is ``1 / sqrt(head_dim)``.
            causal: Whether a query sees keys up to its own place only: query i those to ``i + causal_offset``.
            causal_offset: None is ``seq_kv - seq_q``, by which the last query sees the last key. With 0 the first query
                sees the first key alone. Without `causal` there must be none.
            dtype: Of all elements, which are floats; float16 and bfloat16 are summed in float32.
        """
        with self._call("attention") as (call, memory):
            kind = self._dtype(call, dtype)
            if not kind.is_float:
                call.refuse("dtype", str(kind), "a dtype of floats")
            names = ("batch", "heads", "seq_q", "seq_kv", "head_dim")
            given = (batch, heads, seq_q, seq_kv, head_dim)
            front = [call.size(name, value) for name, value in zip(names[:2], given[:2], strict=True)]
            queries, keys, width = (call.size(name, value) for name, value in zip(names[2:], given[2:], strict=True))
            factor = 1 / math.sqrt(max(width, 1)) if scale is None else call.scale("scale", scale)
            offset: int | None = None
            if causal:
                offset = keys - queries
                if causal_offset is not None:
                    offset = call.integer("causal_offset", causal_offset, -(1 << 31), "an integer of 32 bits")
                    offset = min(offset, keys)  # all there are
            elif causal_offset is not None:
                call.refuse("causal_offset", causal_offset, "None, since causal is False")
            outer, inner = dense(0, *front, queries, width), dense(0, *front, keys, width)
            places = [("q", q, outer), ("k", k, inner), ("v", v, inner), ("o", o, outer)]
            query, key, value, target = self._operands(call, kind, places)
            if target.block is None:
                return
            if keys == 0:
                result = memory.zeros(target)
            else:
                result = formulas.attention(memory.read(query), memory.read(key), memory.read(value), factor, offset)
            memory.write([(target, result)])

    # ---- reductions, and functions of elements

    def reduce(
        self,
        op: ReduceLike,
        input: Place,
        output: Place,
        shape: Sequence[int],
        axis: int,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        """Reduce an array along one axis.

        Args:
            op: SUM, MAX, MIN or MEAN. NaN is the result where it is met; of integers there is no MEAN, of complex
                numbers no MAX and MIN.
            input: The array.
            output: Where the result goes, which lacks the axis. It must not overlap with `input`.
            shape: Of `input`; one axis at least.
            axis: Which one; from the end if it is negative. Along 0 elements SUM is 0, MEAN NaN, MAX and MIN errors.
            dtype: Of all elements; float16 and bfloat16 are summed in float32, integers wrap.
        """
        with self._call("reduce") as (call, memory):
            kind, which = self._dtype(call, dtype), call.member("op", op, ReduceOp)
            self._check_defined(call, which, kind)
            sizes = call.shape("shape", shape, None)
            if not sizes:
                call.refuse("shape", sizes, "one axis at least")
            place = call.integer("axis", axis, -len(sizes), f"an axis of {len(sizes)}")
            if place >= len(sizes):
                call.refuse("axis", place, f"less than {len(sizes)}, the number of axes")
            place %= len(sizes)
            rest = (*sizes[:place], *sizes[place + 1 :])
            places = [("input", input, dense(0, *sizes)), ("output", output, dense(0, *rest))]
            source, target = self._operands(call, kind, places)
            if target.block is None:
                return
            if source.block is None and which in (ReduceOp.MAX, ReduceOp.MIN):
                call.refuse("shape", sizes, f"elements along axis {place}, since {which.name} of none is not defined")
            memory.write([(target, formulas.reduced(memory.read(source), which, place))])

    def unary(self, op: UnaryLike, input: Place, output: Place, n: int, *, dtype: DTypeLike = float32) -> None:
        """Compute a function of each of `n` elements.

        Args:
            op: RELU, SIGMOID, TANH, EXP, LOG, SQRT, ABS or NEG. Of integers there are RELU, ABS and NEG, of complex
                numbers all but RELU, SIGMOID and ABS.
            input: The elements.
            output: Where the results go: `input` itself, or memory that does not overlap with it.
            n: How many.
            dtype: Of all elements.
        """
        with self._call("unary") as (call, memory):
            kind, which = self._dtype(call, dtype), call.member("op", op, UnaryOp)
            self._check_defined(call, which, kind)
            flat = dense(0, call.size("n", n))
            x, target = self._operands(call, kind, [("input", input, flat), ("output", output, flat)], may_share=True)
            if target.block is not None:
                memory.write([(target, formulas.unary(memory.read(x), which))])

    def binary(self, op: BinaryLike, a: Place, b: Place, output: Place, n: int, *, dtype: DTypeLike = float32) -> None:
        """Compute a function of each of `n` pairs of elements.

        Args:
            op: ADD, SUB, MUL, DIV, MAX, MIN or POW; of integers not DIV and POW, of complex numbers not MAX and MIN.
            a: The first of each pair.
            b: The second of each pair; it may be `a`.
            output: Where the results go: `a` or `b` itself, or memory that does not overlap with them.
            n: How many.
            dtype: Of all elements; integers wrap.
        """
        with self._call("binary") as (call, memory):
            kind, which = self._dtype(call, dtype), call.member("op", op, BinaryOp)
            self._check_defined(call, which, kind)
            flat = dense(0, call.size("n", n))
            places = [("a", a, flat), ("b", b, flat), ("output", output, flat)]
            x, y, target = self._operands(call, kind, places, may_share=True)
            if target.block is not None:
                memory.write([(target, formulas.binary(memory.read(x), memory.read(y), which))])

    @staticmethod
    def _check_defined(call: CheckedCall, op: UnaryOp | BinaryOp | ReduceOp, dtype: DType) -> None:
        if not formulas.is_defined(op, dtype):
            known = ", ".join(each.name for each in type(op) if formulas.is_defined(each, dtype))
            call.refuse("op", op, f"one of {known}, which there are of {dtype}")
