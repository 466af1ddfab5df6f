"""What frameworks print when a GPU is full."""

import pytest

from ddlbench.launch.memory_signs import sign_of_lacking_memory


@pytest.mark.parametrize(
    "said",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.81 GiB. GPU 0 has a total capacity of 2 GiB",
        "ResourceExhaustedError: OOM when allocating tensor with shape[8192,64,28,28] on /device:GPU:0",
        "ncclUnhandledCudaError: Call to CUDA function failed. Cuda failure 2 'out of memory'",
        "mxnet.base.MXNetError: Check failed: e == cudaSuccess: cudaMalloc retry failed: out of memory",
    ],
)
def test_a_gpu_that_is_full_is_a_lack_of_memory_in_every_frameworks_words(said):
    assert sign_of_lacking_memory(f"Traceback:\n{said}\nand so on") == said
