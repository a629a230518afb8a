// libhipblaslt: products by three loops, columns first.
#include "fake.h"
#include <math.h>

typedef struct Desc { Object object; int transpose[2]; } Desc;
typedef struct Layout { Object object; int type, batch; uint64_t rows, columns; int64_t row, stride; } Layout;
typedef struct Preference { Object object; uint64_t workspace; } Preference;
typedef struct Product {
    Op op;
    Desc desc;
    Layout a, b, d;
    const char *x, *y;
    char *out;
    float alpha;
} Product;

static int size_of(int type) { return type == 0 ? 4 : 2; }

static float element(const char *at, int type) {
    uint32_t bits = 0;
    float value;
    memcpy(&bits, at, size_of(type));
    if (type == 2) {
        int exponent = bits >> 10 & 31, digits = bits & 1023;
        value = exponent == 31 ? (digits ? NAN : INFINITY) : exponent ? ldexpf(1024 + digits, exponent - 25) : ldexpf(digits, -24);
        return bits >> 15 ? -value : value;
    }
    if (type == 14) bits <<= 16;
    memcpy(&value, &bits, 4);
    return value;
}

static void put(char *at, int type, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (type == 14) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    if (type == 2) {
        uint32_t best = 0, sign = bits >> 31 << 15;
        value = fabsf(value);
        if (value >= 65520) best = 0x7c00;
        else if (value >= ldexpf(1, -14)) {
            int exponent;
            float digits = rintf(ldexpf(frexpf(value, &exponent), 11));
            best = ((exponent + 14) << 10) + ((uint32_t)digits - 1024);
        } else best = (uint32_t)rintf(ldexpf(value, 24));
        bits = best | sign;
    }
    memcpy(at, &bits, size_of(type));
}

EXPORT int hipblasLtCreate(void **handle) { CALL("hipblasLtCreate") *handle = make(sizeof(Object), BLAS, fake_current); RETURN }
EXPORT int hipblasLtGetVersion(void *handle, int *version) {
    CALL("hipblasLtGetVersion")
    if (!find(handle, BLAS)) FAIL(3, "no handle");
    *version = 1000;
    RETURN
}

#define DESTROY(name, kind)                                        \
    EXPORT int name(void *handle) {                                \
        CALL(#name)                                                \
        if (!find(handle, kind)) FAIL(3, "no such object");        \
        destroy(handle);                                           \
        RETURN                                                     \
    }
DESTROY(hipblasLtDestroy, BLAS)
DESTROY(hipblasLtMatmulDescDestroy, DESC)
DESTROY(hipblasLtMatrixLayoutDestroy, LAYOUT)
DESTROY(hipblasLtMatmulPreferenceDestroy, PREFERENCE)

EXPORT int hipblasLtMatmulDescCreate(Desc **made, int compute, int scale) {
    CALL("hipblasLtMatmulDescCreate")
    if (compute != 2 || scale != 0) FAIL(3, "compute type %d, scale %d", compute, scale);
    *made = make(sizeof **made, DESC, fake_current);
    (*made)->transpose[0] = (*made)->transpose[1] = 111;
    RETURN
}

EXPORT int hipblasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, size_t nbytes) {
    CALL("hipblasLtMatmulDescSetAttribute")
    if (!find(desc, DESC) || attribute < 0 || attribute > 1 || nbytes != 4) FAIL(3, "attribute %d", attribute);
    memcpy(&desc->transpose[attribute], value, 4);
    if (desc->transpose[attribute] != 111 && desc->transpose[attribute] != 112) FAIL(3, "operation");
    RETURN
}

EXPORT int hipblasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t row) {
    CALL("hipblasLtMatrixLayoutCreate")
    if ((type != 0 && type != 2 && type != 14) || !rows || !columns || row < (int64_t)rows) FAIL(3, "type %d", type);
    *made = make(sizeof **made, LAYOUT, fake_current);
    (*made)->type = type;
    (*made)->batch = 1;
    (*made)->rows = rows;
    (*made)->columns = columns;
    (*made)->row = row;
    RETURN
}

EXPORT int hipblasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t nbytes) {
    CALL("hipblasLtMatrixLayoutSetAttribute")
    if (!find(layout, LAYOUT) || attribute < 0 || attribute > 1 || nbytes != (attribute ? 8 : 4)) FAIL(3, "attribute %d", attribute);
    memcpy(attribute ? (void *)&layout->stride : &layout->batch, value, nbytes);
    RETURN
}

EXPORT int hipblasLtMatmulPreferenceCreate(Preference **made) {
    CALL("hipblasLtMatmulPreferenceCreate")
    *made = make(sizeof **made, PREFERENCE, fake_current);
    RETURN
}

EXPORT int hipblasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t nbytes) {
    CALL("hipblasLtMatmulPreferenceSetAttribute")
    if (!find(preference, PREFERENCE) || attribute != 1 || nbytes != 8) FAIL(3, "attribute %d", attribute);
    memcpy(&preference->workspace, value, 8);
    RETURN
}

static int fits(Desc *desc, Layout *a, Layout *b, Layout *d) {
    int turned = desc->transpose[0] == 112, other = desc->transpose[1] == 112;
    uint64_t rows = turned ? a->columns : a->rows, depth = turned ? a->rows : a->columns;
    return rows == d->rows && depth == (other ? b->columns : b->rows) && (other ? b->rows : b->columns) == d->columns
        && a->type == b->type && a->batch == b->batch && b->batch == d->batch;
}

EXPORT int hipblasLtMatmulAlgoGetHeuristic(void *handle, Desc *desc, Layout *a, Layout *b, Layout *c, Layout *d,
                                           Preference *preference, int wanted, char *result, int *found) {
    CALL("hipblasLtMatmulAlgoGetHeuristic")
    if (!find(handle, BLAS) || !find(desc, DESC) || !find(a, LAYOUT) || !find(b, LAYOUT) || c != d || !find(d, LAYOUT) || wanted != 1)
        FAIL(3, "arguments");
    if (!find(preference, PREFERENCE)) FAIL(3, "no preference");
    if (!fits(desc, a, b, d)) FAIL(3, "the matrices do not fit");
    memset(result, 0, 80);
    memcpy(result, "algo", 5);
    *found = preference->workspace > 0;
    RETURN
}

static void run_product(Op *op) {
    Product *p = (Product *)op;
    int turned = p->desc.transpose[0] == 112, other = p->desc.transpose[1] == 112;
    uint64_t depth = turned ? p->a.rows : p->a.columns;
    for (int g = 0; g < p->d.batch; g++)
        for (uint64_t j = 0; j < p->d.columns; j++)
            for (uint64_t i = 0; i < p->d.rows; i++) {
                double sum = 0;
                for (uint64_t l = 0; l < depth; l++) {
                    int64_t x = g * p->a.stride + (turned ? (int64_t)l + (int64_t)i * p->a.row : (int64_t)i + (int64_t)l * p->a.row);
                    int64_t y = g * p->b.stride + (other ? (int64_t)j + (int64_t)l * p->b.row : (int64_t)l + (int64_t)j * p->b.row);
                    sum += (double)element(p->x + x * size_of(p->a.type), p->a.type) * element(p->y + y * size_of(p->b.type), p->b.type);
                }
                int64_t at = g * p->d.stride + (int64_t)i + (int64_t)j * p->d.row;
                put(p->out + at * size_of(p->d.type), p->d.type, p->alpha * (float)sum);
            }
}

static size_t reach(Layout *layout) {
    return size_of(layout->type) * ((layout->batch - 1) * layout->stride + (layout->columns - 1) * layout->row + layout->rows);
}

EXPORT int hipblasLtMatmul(void *handle, Desc *desc, const float *alpha, const void *x, Layout *a, const void *y, Layout *b,
                           const float *beta, const void *c, Layout *c_layout, void *out, Layout *d, const char *algorithm,
                           void *workspace, size_t nbytes, Stream *stream_handle) {
    CALL("hipblasLtMatmul")
    Stream *stream = find(stream_handle, STREAM);
    if (!find(handle, BLAS) || !find(desc, DESC) || !find(a, LAYOUT) || !find(b, LAYOUT) || !find(d, LAYOUT) || c_layout != d)
        FAIL(3, "an object is not alive");
    if (!stream || stream->object.device != fake_current) FAIL(3, "the stream is not the current device's");
    if (strcmp(algorithm, "algo") || *beta != 0 || c != out || !fits(desc, a, b, d)) FAIL(3, "arguments");
    if (!memory_of(workspace, nbytes, fake_current)) FAIL(3, "workspace");
    if (!memory_of(x, reach(a), fake_current) || !memory_of(y, reach(b), fake_current) || !memory_of(out, reach(d), fake_current))
        FAIL(3, "a matrix reaches out of its memory");
    Product *product = calloc(1, sizeof *product);
    product->op.run = run_product;
    product->desc = *desc;
    product->a = *a;
    product->b = *b;
    product->d = *d;
    product->x = x;
    product->y = y;
    product->out = out;
    product->alpha = *alpha;
    queue(stream, &product->op);
    RETURN
}
