"""Kernels for sm_90a: wgmma fed by bulk tensor copies, with a persistent, warp-specialised block."""
