"""How a node is divided among its workers: processors near their GPUs, each GPU once."""

from ddlbench.cluster.binding import bindings, listed, numa_of_cores, numa_of_device
from ddlbench.launch.gpu_variables import gpu_variables

EIGHT = [f"GPU-{number}" for number in range(8)]
TWO_SOCKETS = {core: core // 18 for core in range(36)}  # two processors of 18 cores, as in Wang 2019


def test_each_of_eight_workers_has_its_gpu_and_processors_of_the_socket_that_the_gpu_is_at():
    of_gpus = [0, 0, 0, 0, 1, 1, 1, 1]
    found = bindings(range(36), EIGHT, 8, TWO_SOCKETS, of_gpus)
    assert [each.gpu for each in found] == EIGHT
    assert [{TWO_SOCKETS[core] for core in each.cores} for each in found] == [{node} for node in of_gpus]
    taken = [core for each in found for core in each.cores]
    assert len(taken) == len(set(taken)) == 8 * 4


def test_gpus_in_any_order_of_sockets_are_followed():
    found = bindings(range(8), EIGHT[:2], 2, {core: core // 4 for core in range(8)}, [1, 0])
    assert [each.cores for each in found] == [(4, 5, 6, 7), (0, 1, 2, 3)]


def test_a_worker_whose_socket_has_no_processors_left_takes_others():
    found = bindings(range(4), EIGHT[:2], 2, {0: 0, 1: 0, 2: 1, 3: 1}, [0, 0])
    assert [each.cores for each in found] == [(0, 1), (2, 3)]


def test_workers_on_processors_have_no_gpu_and_stay_within_a_socket():
    found = bindings([0, 1, 2, 3], [], 2, {0: 0, 2: 0, 1: 1, 3: 1}, [])
    assert [(each.cores, each.gpu) for each in found] == [((0, 2), None), ((1, 3), None)]


def test_numa_nodes_are_read_from_the_kernels_files(tmp_path):
    for node, cores in enumerate(("0-1,4", "2-3")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n")
    card = tmp_path / "bus/pci/devices/0000:3b:00.0"
    card.mkdir(parents=True)
    (card / "numa_node").write_text("1\n")
    assert numa_of_cores(tmp_path) == {0: 0, 1: 0, 4: 0, 2: 1, 3: 1}
    assert numa_of_device("00000000:3B:00.0", tmp_path) == 1
    assert numa_of_device("00000000:5E:00.0", tmp_path) == -1
    assert numa_of_device("", tmp_path) == -1
    assert listed("") == []


def test_a_worker_of_a_node_sees_the_gpu_that_it_is_bound_to_alone():
    assert gpu_variables(None, computes_on_gpu=True, host="n1", fabric="infiniband", bound_to="GPU-3") == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-3",
    }
