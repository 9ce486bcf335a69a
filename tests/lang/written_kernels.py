"""Kernels as Numba users write them; another import in place of the first makes them Numba's."""

import math

import numpy as np

from mxgemm import cuda

TPB = 16
BINS = 16
G = np.float32(0.5)
WEIGHTS = np.array([0.25, 0.5, 0.25], np.float32)


@cuda.jit
def matmul(A, B, C):
    """Matrix product, one thread an entry (Numba's documentation)."""
    i, j = cuda.grid(2)
    if i < C.shape[0] and j < C.shape[1]:
        tmp = 0.0
        for k in range(A.shape[1]):
            tmp += A[i, k] * B[k, j]
        C[i, j] = tmp


@cuda.jit
def fast_matmul(A, B, C):
    """Tiled matrix product with shared memory (Numba's documentation)."""
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=np.float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=np.float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    bpg = cuda.gridDim.x
    tmp = np.float32(0.0)
    for i in range(bpg):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < A.shape[0] and (tx + i * TPB) < A.shape[1]:
            sA[ty, tx] = A[y, tx + i * TPB]
        if x < B.shape[1] and (ty + i * TPB) < B.shape[0]:
            sB[ty, tx] = B[ty + i * TPB, x]
        cuda.syncthreads()
        for j in range(TPB):
            tmp += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = tmp


@cuda.jit
def array_sum(data):
    """Sum in place within a block (Numba's documentation of reductions)."""
    tid = cuda.threadIdx.x
    size = len(data)
    if tid < size:
        i = cuda.grid(1)
        shr = cuda.shared.array(1024, np.int32)
        shr[tid] = data[i]
        cuda.syncthreads()
        s = 1
        while s < cuda.blockDim.x:
            if tid % (2 * s) == 0:
                shr[tid] += shr[tid + s]
            s *= 2
            cuda.syncthreads()
        if tid == 0:
            data[tid] = shr[tid]


@cuda.jit
def block_sums(x, partial):
    """Grid-stride reduction with a tree in shared memory."""
    cache = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    acc = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        acc += x[i]
    cache[t] = acc
    cuda.syncthreads()
    width = cuda.blockDim.x // 2
    while width > 0:
        if t < width:
            cache[t] += cache[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = cache[0]


@cuda.jit
def warp_sum(x, out):
    """Warp reduction by shuffles."""
    i = cuda.grid(1)
    value = x[i]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        out[i // 32] = value


@cuda.jit
def inclusive_scan(x, out):
    """Hillis and Steele's scan of one block."""
    buffer = cuda.shared.array((2, 256), np.int32)
    t = cuda.threadIdx.x
    source = 0
    buffer[source, t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        target = 1 - source
        if t >= step:
            buffer[target, t] = buffer[source, t] + buffer[source, t - step]
        else:
            buffer[target, t] = buffer[source, t]
        source = target
        cuda.syncthreads()
        step *= 2
    out[t] = buffer[source, t]


@cuda.jit
def stencil(a, b):
    """Five-point stencil."""
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@cuda.jit
def smooth(x, y):
    """Weights in constant memory, negative indices from the end."""
    w = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < x.size - 1:
        y[i] = w[0] * x[i - 1] + w[1] * x[i] + w[2] * x[i + 1]


@cuda.jit
def histogram(x, xmin, xmax, out):
    """Histogram with global atomics (Numba's documentation)."""
    nbins = out.shape[0]
    bin_width = (xmax - xmin) / nbins
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        bin_number = np.int32((x[i] - xmin) / bin_width)
        if bin_number >= 0 and bin_number < out.shape[0]:
            cuda.atomic.add(out, bin_number, 1)


@cuda.jit
def shared_histogram(x, out):
    """Histogram with shared atomics, then global ones."""
    bins = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % BINS, 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(out, t, bins[t])


@cuda.jit
def transpose(a, b):
    """Transpose through a padded tile."""
    tile = cuda.shared.array((16, 17), np.float32)
    x = cuda.blockIdx.x * 16 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 16 + cuda.threadIdx.y
    if y < a.shape[0] and x < a.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 16 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 16 + cuda.threadIdx.y
    if y < b.shape[0] and x < b.shape[1]:
        b[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@cuda.jit(device=True)
def mandel(x, y, max_iters):
    """Iterations until the orbit of x + iy leaves the disc."""
    zr = 0.0
    zi = 0.0
    for i in range(max_iters):
        zr2 = zr * zr
        zi2 = zi * zi
        if zr2 + zi2 >= 4:
            return i
        zi = 2.0 * zr * zi + y
        zr = zr2 - zi2 + x
    return max_iters


@cuda.jit
def mandelbrot(min_x, max_x, min_y, max_y, image, iters):  # noqa: PLR0917  # Numba's example
    """Mandelbrot's set (Numba's examples, with a grid stride)."""
    height = image.shape[0]
    width = image.shape[1]
    pixel_size_x = (max_x - min_x) / width
    pixel_size_y = (max_y - min_y) / height
    startX, startY = cuda.grid(2)
    gridX = cuda.gridDim.x * cuda.blockDim.x
    gridY = cuda.gridDim.y * cuda.blockDim.y
    for x in range(startX, width, gridX):
        real = min_x + x * pixel_size_x
        for y in range(startY, height, gridY):
            imag = min_y + y * pixel_size_y
            image[y, x] = mandel(real, imag, iters)


@cuda.jit(device=True)
def attraction(dx, dy, dz):
    """Acceleration towards a unit mass at (dx, dy, dz)."""
    r2 = dx * dx + dy * dy + dz * dz + np.float32(0.01)
    inverse = np.float32(1) / (r2 * math.sqrt(r2))
    return dx * inverse, dy * inverse, dz * inverse


@cuda.jit
def nbody(position, mass, velocity, dt):
    """One step of direct N-body gravity."""
    i = cuda.grid(1)
    if i >= position.shape[0]:
        return
    ax = np.float32(0)
    ay = np.float32(0)
    az = np.float32(0)
    own = position[i]
    for j in range(position.shape[0]):
        if j == i:
            continue
        fx, fy, fz = attraction(position[j, 0] - own[0], position[j, 1] - own[1], position[j, 2] - own[2])
        ax += G * mass[j] * fx
        ay += G * mass[j] * fy
        az += G * mass[j] * fz
    velocity[i, 0] += dt * ax
    velocity[i, 1] += dt * ay
    velocity[i, 2] += dt * az


@cuda.jit
def life(a, b):
    """Conway's rule on a torus, in 8-bit cells."""
    i, j = cuda.grid(2)
    h, w = a.shape
    if i >= h or j >= w:
        return
    alive = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            if di != 0 or dj != 0:
                alive += a[(i + di) % h, (j + dj) % w]
    b[i, j] = 1 if alive == 3 or (alive == 2 and a[i, j]) else 0


@cuda.jit
def polynomial(x, coefficients, y):
    """Horner's rule with a private copy of the coefficients."""
    c = cuda.local.array(8, np.float64)
    n = coefficients.size
    for k in range(n):
        c[k] = coefficients[k]
    i = cuda.grid(1)
    if i < x.size:
        value = 0.0
        for k in range(n - 1, -1, -1):
            value = value * x[i] + c[k]
        y[i] = value


@cuda.jit("float32(float32)", device=True)
def squared(v):
    """In float32, whatever it is given."""
    return v * v


@cuda.jit(device=True)
def shifted(v, by=3):
    """A default."""
    return v + by


@cuda.jit
def corners(x, index, out):
    """Where readings of Python may differ: folded literals, short circuits, signatures, order, loops."""
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    n = index[i]
    out[i, 0] = x[n] if 0 <= n < x.size != x[n] else -1
    out[i, 1] = 2**-1 + (2**63 >> 62)
    out[i, 2] = squared(x[i] / 3)
    out[i, 3] = shifted(n) + shifted(n, 10)
    steps = 0
    for k in range(5):
        k += 10  # noqa: PLW2901  # the range goes on from its own count
        if k == 12:
            continue
        steps += k
        if steps > 20 + i:
            break
    out[i, 4] = steps
    a, b = n, x[i]
    a, b = b, a
    out[i, 5] = a - 2 * b
    out[i, 6] = (n // 3) * 100 + n % -4
    out[i, 7] = round(x[i] / 2) + (n and 7) + (x[i] or 5)
