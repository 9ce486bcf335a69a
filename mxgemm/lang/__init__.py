"""The kernel dialect: Python source to typed IR to an interpreter or CUDA C."""
