# ruff: noqa
import time
from mxgemm import array, device
import cupy, numpy as np
from mxgemm.device import driver


def src(n):
    return 'extern "C" __global__ void k%d(%s){}' % (n, ",".join(f"long long a{i}" for i in range(n)))


x = cupy.zeros((64, 64), np.float32)
s = cupy.cuda.Stream(non_blocking=True)


def med(f):
    f()
    best = []
    for _ in range(9):
        cupy.cuda.Device().synchronize()
        t = time.perf_counter()
        for _ in range(500):
            f()
        best.append((time.perf_counter() - t) / 500 * 1e6)
        cupy.cuda.Device().synchronize()
    return round(sorted(best)[4], 2)


print("devices", device.count())
for n in (12, 24, 32):
    k = device.compiled(src(n), f"k{n}")
    L = device.Launcher(k, (1,), (32,))
    args = (x.data.ptr,) * n
    B = device.BoundLaunch(k, (1,), (32,), 4, (1,) * (n - 4))
    p = (x.data.ptr,) * 4
    print(n, "Launcher", med(lambda: L(s.ptr, *args)), "Bound", med(lambda: B(s.ptr, *p)), end=" ")
    for several in (True, False):
        L._several = B._several = several
        print("several", several, med(lambda: L(s.ptr, *args)), med(lambda: B(s.ptr, *p)), end=" ")
    print()
array.view(x)
with cupy.cuda.Device(0):
    pass


def road():
    p, f = array.fingerprint(x)
    q, g = array.fingerprint(x)
    r, h = array.fingerprint(x)
    {(f, g, h): 1}[(f, g, h)]
    B(cupy.cuda.get_current_stream(0).ptr or 1, p, q, r, r)


print("three fingerprints, dict, stream, bound launch", med(road))
import torch

y = torch.zeros(64, 64, device="cuda")
array.view(y)
print(
    "torch fingerprint",
    med(lambda: array.fingerprint(y)),
    "view",
    med(lambda: array.view(y)),
    "stream",
    med(lambda: torch.cuda.current_stream(0).cuda_stream),
)
